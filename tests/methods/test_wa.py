from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.support.small_bimae import make_batch, make_task, make_trainer
from tests.support.small_residual import (
    in_second_task,
    learn_task,
    make_residual,
    slow_cross_entropy,
    slow_distillation,
)

LABELS = torch.tensor([0, 3, 2])


@pytest.mark.parametrize(("options", "weight"), [({}, 2 / 3), ({"classify_weight": 1.5}, 1.5)])
def test_the_loss_weighs_teacher_and_labels_by_the_shares_of_old_and_new_classes(
    options: dict[str, float], weight: float
) -> None:
    method = in_second_task(make_trainer(), "wa", **options)
    method.classifier.grow(2)  # 2 old and 4 new classes: lambda = 1/3
    batch = make_batch(labels=LABELS)
    terms = method.loss(batch)
    scores, old = method.predict(batch.views).detach(), method.teacher(batch.views)
    labels = slow_cross_entropy(scores, LABELS.tolist())
    teacher = slow_distillation(scores, old, temperature=2)
    assert terms["classify"].item() == pytest.approx(weight * labels, rel=1e-5)
    assert terms["distill"].item() == pytest.approx(1 / 3 * teacher, rel=1e-5)


def test_the_first_task_is_plain_cross_entropy() -> None:
    trainer, method = make_trainer(), make_residual("wa")
    method.eval().begin_task(make_task(0), trainer.reader)
    batch = make_batch(labels=torch.tensor([0, 1, 1]))
    scores = method.predict(batch.views).detach()
    assert {name: term.item() for name, term in method.loss(batch).items()} == {
        "classify": pytest.approx(slow_cross_entropy(scores, [0, 1, 1]), rel=1e-5)
    }


def lengths(rows: Tensor) -> list[float]:
    return [sum(entry**2 for entry in row) ** 0.5 for row in rows.tolist()]


def rows_around_end_of_task(index: int, **options: bool) -> tuple[Tensor, Tensor]:
    trainer = make_trainer()
    method = make_residual("wa", **options)
    for earlier in range(index):
        learn_task(method, earlier, trainer)
    task = make_task(index)
    method.begin_task(task, trainer.reader)
    for phase in method.phases(task, trainer.reader):
        trainer.fit(method, task, phase)
    with torch.no_grad():
        method.classifier.weight[2 * index :] *= 3
        before = method.classifier.weight.clone()
    method.end_task(task, trainer.reader)
    return before, method.classifier.weight.detach()


def test_after_a_later_task_new_rows_are_as_long_as_old_ones_on_average() -> None:
    before, after = rows_around_end_of_task(1)
    assert torch.equal(after[:2], before[:2])
    assert sum(lengths(after[2:])) == pytest.approx(sum(lengths(before[:2])), rel=1e-5)
    assert sum(lengths(before[2:])) != pytest.approx(sum(lengths(before[:2])), rel=0.1)


@pytest.mark.parametrize(("index", "options"), [(0, {}), (1, {"align_weights": False})])
def test_nothing_is_aligned_after_the_first_task_or_where_it_is_off(
    index: int, options: dict[str, bool]
) -> None:
    before, after = rows_around_end_of_task(index, **options)
    assert torch.equal(before, after)


def test_the_next_teacher_has_the_aligned_rows() -> None:
    trainer, method = make_trainer(), make_residual("wa")
    learn_task(method, 0, trainer)
    learn_task(method, 1, trainer)
    aligned = method.classifier.weight.detach().clone()
    method.begin_task(make_task(1), trainer.reader)
    assert torch.equal(method.teacher.network[1].weight, aligned)


@pytest.mark.parametrize("is_clipped", [True, False])
def test_rows_are_kept_positive_where_asked(is_clipped: bool) -> None:
    trainer, method = make_trainer(), make_residual("wa", has_positive_rows=is_clipped)
    learn_task(method, 0, trainer)
    assert bool((method.classifier.weight >= 0).all()) is is_clipped
    assert bool((method.classifier.weight > 0).any())
