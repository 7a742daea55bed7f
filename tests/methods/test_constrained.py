from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from remnant.methods.constrained import (
    project_by_all,
    project_by_one,
    read_gradient,
    tasks_of,
    within_tasks,
    write_gradient,
)
from remnant.phases import Player
from tests.support.small_bimae import make_batch, make_task, make_trainer
from tests.support.small_residual import (
    in_second_task,
    learn_task,
    make_residual,
    slow_cross_entropy,
)
from tests.support.worlds import seeded

RIDGE = 1e-3


def slow_weights(gradient: list[float], rows: list[list[float]], margin: float) -> list[float]:
    """[gem] v >= margin that minimises 1/2 v'(GG' + ridge)v + (Gg)'v, one weight after the other.

    With the others fixed, the best of one weight is known; a convex problem comes to rest so.
    """
    count = len(rows)
    matrix = [
        [sum(a * b for a, b in zip(one, other, strict=True)) for other in rows] for one in rows
    ]
    for index in range(count):
        matrix[index][index] += RIDGE
    linear = [sum(a * b for a, b in zip(row, gradient, strict=True)) for row in rows]
    weights = [margin] * count
    for _ in range(20_000):
        before = list(weights)
        for index in range(count):
            rest = sum(matrix[index][j] * weights[j] for j in range(count) if j != index)
            weights[index] = max(margin, -(linear[index] + rest) / matrix[index][index])
        if max(abs(a - b) for a, b in zip(before, weights, strict=True)) < 1e-13:
            break
    return weights


def random_problem(seed: int, num_tasks: int, size: int = 12) -> tuple[Tensor, Tensor]:
    rng = seeded(seed)
    return torch.randn(size, generator=rng), torch.randn(num_tasks, size, generator=rng)


@given(st.integers(0, 10_000), st.integers(1, 4), st.sampled_from([0.0, 0.5]))
@settings(max_examples=40, deadline=None)
def test_the_projection_is_that_of_slow_descent(seed: int, num_tasks: int, margin: float) -> None:
    gradient, references = random_problem(seed, num_tasks)
    found = project_by_all(gradient, references, margin)
    if bool((references @ gradient >= 0).all()):
        assert torch.equal(found, gradient)
        return
    weights = slow_weights(gradient.tolist(), references.tolist(), margin)
    expected = gradient + sum(w * row for w, row in zip(weights, references, strict=True))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


@given(st.integers(0, 10_000), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_a_projected_gradient_raises_no_loss_and_is_the_nearest_such(
    seed: int, num_tasks: int
) -> None:
    gradient, references = random_problem(seed, num_tasks, size=40)
    found = project_by_all(gradient, references, margin=0.0)
    assert float((references @ found).min()) > -0.05  # the ridge allows as much as 1e-3 v
    # Any other gradient that agrees with all is farther away: by the angle at the nearest one.
    for other in torch.randn(20, 40, generator=seeded(seed + 1)):
        agreeing = other + torch.linalg.pinv(references) @ (references @ -other).clamp(min=0)
        assert bool((references @ agreeing > -1e-3).all())
        assert float((gradient - found) @ (agreeing - found)) < 0.2


@pytest.mark.parametrize("seed", range(5))
def test_long_references_that_are_nearly_the_same_have_a_projection(seed: int) -> None:
    rng = seeded(seed)
    common = torch.randn(20_000, generator=rng)
    references = 100 * common + 0.001 * torch.randn(4, 20_000, generator=rng)
    gradient = torch.randn(20_000, generator=rng) - common
    found = project_by_all(gradient, references, margin=0.0)
    assert float((references.double() @ found.double()).max()) < 100  # of 2e8 before
    # One vector said four times is one constraint.
    expected = project_by_one(gradient, references[0])
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


def test_products_in_pieces_are_those_of_whole_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    gradient, references = random_problem(3, 4)
    whole = project_by_all(gradient, references, 0.5)
    monkeypatch.setattr("remnant.methods.constrained._PIECE", 5)
    assert not torch.equal(whole, gradient)
    torch.testing.assert_close(project_by_all(gradient, references, 0.5), whole)


def test_one_reference_takes_out_what_is_against_it() -> None:
    gradient, reference = torch.tensor([3.0, -4.0, 1.0]), torch.tensor([0.0, 2.0, 0.0])
    product, square = 3 * 0 - 4 * 2 + 1 * 0, 0 + 4 + 0
    expected = [g - product / square * r for g, r in zip([3, -4, 1], [0, 2, 0], strict=True)]
    assert project_by_one(gradient, reference).tolist() == expected == [3, 0, 1]
    assert project_by_one(-gradient, reference) is not None
    assert torch.equal(project_by_one(-gradient, reference), -gradient)
    assert torch.equal(project_by_one(gradient, torch.zeros(3)), gradient)


def test_without_ridge_and_margin_one_task_is_projected_as_by_the_mean() -> None:
    gradient, references = random_problem(3, 1)
    references = 30 * torch.sign(-(references @ gradient))[:, None] * references  # far above ridge
    both = project_by_all(gradient, references, 0.0), project_by_one(gradient, references[0])
    torch.testing.assert_close(*both, rtol=1e-4, atol=1e-4)
    assert not torch.equal(both[0], gradient)


def test_gradients_are_read_and_written_in_one_order() -> None:
    parameters = [nn.Parameter(torch.randn(2, 3)), nn.Parameter(torch.randn(4))]
    parameters[1].grad = torch.arange(4.0)
    assert read_gradient(parameters).tolist() == [0] * 6 + [0, 1, 2, 3]
    write_gradient(parameters, torch.arange(10.0))
    assert read_gradient(parameters).tolist() == list(range(10))
    assert parameters[0].grad is not None
    assert parameters[0].grad.shape == (2, 3)


def test_scores_are_kept_within_the_task_of_the_label() -> None:
    starts, labels = [0, 2, 5], torch.tensor([0, 1, 2, 4, 5, 6])
    assert tasks_of(labels, starts).tolist() == [0, 0, 1, 1, 2, 2]
    scores = within_tasks(torch.zeros(2, 7), torch.tensor([1, 3]), starts)
    assert [[not math.isinf(score) for score in row] for row in scores.tolist()] == [
        [True, True, False, False, False, False, False],
        [False, False, True, True, True, False, False],
    ]


# ------------------------------------------------------------------------------------ the methods

LABELS = torch.tensor([2, 0, 3, 1, 2])
IS_REPLAY = torch.tensor([False, True, False, True, False])


def mixed_batch() -> Any:
    return replace(make_batch(5, labels=LABELS), is_replay=IS_REPLAY)


@pytest.mark.parametrize("name", ["gem", "a-gem"])
@pytest.mark.parametrize("softmax_over", ["task", "seen"])
def test_new_images_and_exemplars_have_losses_of_their_own(name: str, softmax_over: str) -> None:
    method = in_second_task(make_trainer(), name, softmax_over=softmax_over)
    batch = mixed_batch()
    scores = method.predict(batch.views).detach()  # in evaluation mode: rows do not mix
    is_task = softmax_over == "task"
    new = scores[~IS_REPLAY][:, 2 if is_task else 0 :]
    old = scores[IS_REPLAY][:, : 2 if is_task else 4]
    expected = slow_cross_entropy(new, [0, 1, 0] if is_task else [2, 3, 2])
    assert method.loss(batch)["classify"].item() == pytest.approx(expected, rel=1e-4)
    terms = method.memory_loss(0, batch) if name == "gem" else method.memory_loss(batch)
    (found,) = terms.values()
    assert found.item() == pytest.approx(slow_cross_entropy(old, [0, 1]), rel=1e-4)


@pytest.mark.parametrize("name", ["gem", "a-gem"])
def test_rows_of_one_kind_alone_leave_the_other_loss_at_zero(name: str) -> None:
    method = in_second_task(make_trainer(), name)
    batch = replace(mixed_batch(), is_replay=torch.ones(5, dtype=torch.bool))
    loss = method.loss(batch)["classify"]
    assert loss.item() == 0
    loss.backward()  # has a gradient, of zero


@pytest.mark.parametrize("name", ["gem", "a-gem"])
def test_steps_take_the_projected_gradient_and_references_move_nothing(name: str) -> None:
    trainer, task = make_trainer(), make_task(1)
    method = in_second_task(trainer, name)
    (phase,) = method.phases(task, trainer.reader)
    seen: list[Tensor] = []

    def noting(player: Player) -> Player:
        def note() -> None:
            seen.append(read_gradient(player.parameters))
            assert player.on_gradients is not None
            player.on_gradients()
            seen.append(read_gradient(player.parameters))

        return replace(player, on_gradients=note)

    trainer.fit(method, task, replace(phase, players=tuple(map(noting, phase.players))))
    steps = list(zip(*[iter(seen)] * 4, strict=True))
    assert len(steps) > 2
    for reference, left, gradient, projected in steps:
        assert not left.any()
        if name == "gem":
            expected = project_by_all(gradient, reference[None], method.config.margin)
        else:
            expected = project_by_one(gradient, reference)
        assert torch.equal(projected, expected)
    assert any(not torch.equal(gradient, projected) for _, _, gradient, projected in steps)


@pytest.mark.parametrize(("name", "terms"), [("gem", "memory 0"), ("a-gem", "memory")])
def test_the_first_task_has_no_constraint(name: str, terms: str) -> None:
    trainer, method = make_trainer(), make_residual(name)
    assert set(learn_task(method, 0, trainer).terms(0, "train")[0]) == {"classify"}
    assert set(learn_task(method, 1, trainer).terms(1, "train")[0]) == {"classify", terms}
