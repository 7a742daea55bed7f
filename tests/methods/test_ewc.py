from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from remnant.phases import Batch, Phase, Terms
from remnant.training.trainer import Trainer
from tests.support.small_bimae import make_batch, make_task, make_trainer
from tests.support.small_residual import learn_task, make_residual, slow_cross_entropy, softmax

FISHER = {"batch_size": 6, "max_entry": None}


def make_ewc(**options: Any) -> Any:
    return make_residual("ewc", **{"fisher": FISHER, **options})


def before_estimate(trainer: Trainer, index: int = 0, **options: Any) -> tuple[Any, Phase]:
    """A method that has learned a task, about to estimate what matters."""
    method = make_ewc(**options)
    for earlier in range(index):
        learn_task(method, earlier, trainer)
    task = make_task(index)
    method.begin_task(task, trainer.reader)
    train, estimate = method.phases(task, trainer.reader)
    trainer.fit(method, task, train)
    return method, estimate


def slow_fisher(method: Any, batches: list[Batch], fisher: dict[str, Any]) -> dict[str, Tensor]:
    """Mean over batches of the squared gradient of the mean loss, in the mode asked for."""
    method.train(fisher.get("has_batch_statistics", True))
    sums = {name: torch.zeros_like(one) for name, one in method.named_parameters()}
    for batch in batches:
        scores = method.predict(batch.views)
        losses = []
        for row, label, draw in zip(
            scores, batch.labels.tolist(), batch.draw("label", 1)[:, 0].tolist(), strict=True
        ):
            chances, kind = softmax(row.tolist()), fisher.get("labels", "true")
            if kind == "predicted":
                label = chances.index(max(chances))
            if kind == "sampled":
                label = next(k for k in range(len(chances)) if sum(chances[: k + 1]) >= draw)
            weight = chances[label] ** 0.5 if kind == "weighted" else 1.0
            losses.append(weight * F.cross_entropy(row[None], torch.tensor([label])))
        loss = torch.stack(losses).mean()
        gradients = torch.autograd.grad(loss, list(method.parameters()))
        for name, gradient in zip(sums, gradients, strict=True):
            sums[name] += gradient**2
    return {name: one / len(batches) for name, one in sums.items()}


def estimate(trainer: Trainer, index: int = 0, **options: Any) -> tuple[Any, list[Batch]]:
    """A method that has just made its estimate, and the batches that it saw for it."""
    method, phase = before_estimate(trainer, index, **options)
    (player,), batches = phase.players, []

    def noting(batch: Batch) -> Terms:
        batches.append(batch)
        return player.loss(batch)

    phase = replace(phase, players=(replace(player, loss=noting),))
    trainer.fit(method, make_task(index), phase)
    return method, batches


@pytest.mark.parametrize(
    "fisher",
    [
        FISHER,
        {**FISHER, "labels": "predicted"},
        {**FISHER, "labels": "sampled"},
        {**FISHER, "labels": "weighted", "batch_size": 1, "has_batch_statistics": False},
        {**FISHER, "has_batch_statistics": False},
    ],
    ids=["true", "predicted", "sampled", "weighted", "learned statistics"],
)
def test_the_estimate_is_the_mean_of_squared_gradients(fisher: dict[str, Any]) -> None:
    method, batches = estimate(make_trainer(), fisher=fisher)
    assert len(batches) == 12 // fisher["batch_size"]
    twin = slow_fisher(method, batches, fisher)
    method.end_task(make_task(0), make_trainer().reader)
    for name, expected in twin.items():
        torch.testing.assert_close(method.fisher[name], expected, rtol=1e-3, atol=1e-7)
        assert bool((expected != 0).any())


def test_the_estimate_of_a_later_task_is_of_the_softmax_over_all_classes_seen() -> None:
    method, batches = estimate(make_trainer(), 1)
    assert all(bool((batch.labels >= 2).all()) for batch in batches)
    twin = slow_fisher(method, batches, FISHER)
    for name, expected in twin.items():
        found = method.squares[name] / method.num_squares
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-7)
    assert twin["classifier.weight"][:2].any()  # old rows are pushed down by new images


def test_estimating_moves_no_weight_and_no_statistic() -> None:
    trainer = make_trainer()
    method, phase = before_estimate(trainer)
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    trainer.fit(method, make_task(0), phase)
    moved = {name for name, tensor in method.state_dict().items() if (tensor != before[name]).any()}
    counters = {name for name in moved if name.endswith("num_batches_tracked")}  # of no effect
    assert moved - counters == {name for name in before if name.startswith(("squares.", "num_sq"))}


def test_parts_of_a_batch_give_the_estimate_of_the_whole() -> None:
    fisher = {**FISHER, "has_batch_statistics": False}
    method, phase = before_estimate(make_trainer(), fisher=fisher)
    found = []
    for accumulate in (1, 3):
        for squares in method.squares.buffers():
            squares.zero_()
        make_trainer(accumulate=accumulate).fit(method, make_task(0), phase)
        found.append([squares.clone() for squares in method.squares.buffers()])
    for one, three in zip(*found, strict=True):
        torch.testing.assert_close(one, three, rtol=1e-3, atol=1e-8)


def test_an_estimate_is_clipped_from_above() -> None:
    free, _ = estimate(make_trainer())
    clipped, _ = estimate(make_trainer(), fisher={**FISHER, "max_entry": 1e-3})
    for method in (free, clipped):
        method.end_task(make_task(0), make_trainer().reader)
    largest = max(float(fisher.max()) for fisher in free.fisher.buffers())
    assert largest > 1e-3
    for one, other in zip(free.fisher.buffers(), clipped.fisher.buffers(), strict=True):
        assert torch.equal(other, one.clamp(max=1e-3))


@pytest.mark.parametrize(
    ("fisher", "kept", "added"),
    [
        ({}, 2 / 4, 2 / 4),
        ({"old_share": 0.3}, 0.3, 0.7),
        ({"merge": "sum", "old_share": 0.9}, 0.9, 1.0),
    ],
)
def test_estimates_of_two_tasks_are_merged_and_new_rows_have_but_one(
    fisher: dict[str, Any], kept: float, added: float
) -> None:
    trainer = make_trainer()
    method, _ = estimate(trainer, 1, fisher={**FISHER, **fisher})
    old = {name: method.fisher[name].clone() for name in method.covered()}
    new = {name: method.squares[name] / 2 for name in method.covered()}  # of two batches
    method.end_task(make_task(1), trainer.reader)
    for name, parameter in method.named_parameters():
        expected = kept * old[name] + added * new[name]
        if name.startswith("classifier."):
            assert not old[name][2:].any()
            expected[2:] = new[name][2:]
        torch.testing.assert_close(method.fisher[name], expected)
        assert torch.equal(method.anchor[name], parameter)
        assert not method.squares[name].any()


def test_the_penalty_is_half_the_squared_distance_weighted_by_the_estimate() -> None:
    trainer, method = make_trainer(), make_ewc(penalty_weight=10)
    learn_task(method, 0, trainer)
    anchors = {name: one.detach().clone() for name, one in method.named_parameters()}
    method.eval().begin_task(make_task(1), trainer.reader)
    batch, expected = make_batch(labels=torch.tensor([2, 3, 2])), 0.0
    assert method.loss(batch)["consolidate"].item() == 0  # new rows of the classifier are free
    with torch.no_grad():
        for name, parameter in method.named_parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
            known = slice(len(anchors[name]))  # rows of old classes, all others of the network
            held = [parameter[known], anchors[name], method.fisher[name][known]]
            for now, anchor, fisher in zip(*(one.flatten().tolist() for one in held), strict=True):
                expected += fisher / 2 * (now - anchor) ** 2
    terms = method.loss(batch)
    assert terms["consolidate"].item() == pytest.approx(10 * expected, rel=1e-3)
    scores = method.predict(batch.views).detach()
    assert terms["classify"].item() == pytest.approx(
        slow_cross_entropy(scores[:, 2:], [0, 1, 0]), rel=1e-5
    )


def test_the_first_task_has_no_penalty() -> None:
    log = learn_task(make_ewc(), 0, make_trainer())
    assert set(log.terms(0, "train")[0]) == {"classify"}


def test_the_classifier_can_be_left_free() -> None:
    trainer = make_trainer()
    method = make_ewc(fisher={**FISHER, "covers": "backbone"})
    learn_task(method, 0, trainer)
    assert set(method.covered()) == {f"backbone.{n}" for n, _ in method.backbone.named_parameters()}
    method.begin_task(make_task(1), trainer.reader)
    with torch.no_grad():
        method.classifier.weight += 1
    assert method.penalty().item() == 0


def test_a_strong_penalty_keeps_the_weights_that_matter() -> None:
    moved = {}
    # Small steps: larger ones jump over what so strong a penalty allows.
    steps = {"epochs": 8, "batch_size": 4, "optimizer": {"name": "sgd", "lr": 0.01}}
    for weight in (0.0, 1e4):
        trainer = make_trainer()
        method = make_ewc(penalty_weight=weight, first=steps)
        learn_task(method, 0, trainer)
        before = method.anchor["backbone.conv.weight"].clone()
        learn_task(method, 1, trainer)
        moved[weight] = (method.backbone.conv.weight - before).norm().item()
    assert moved[1e4] < 0.6 * moved[0.0]  # 0.2 to 0.4
