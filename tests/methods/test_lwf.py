from __future__ import annotations

import pytest
import torch

from remnant.errors import InputError
from remnant.phases import Batch
from tests.support.small_bimae import Spy, make_batch, make_task, make_trainer
from tests.support.small_residual import (
    SCHEDULE,
    in_second_task,
    learn_task,
    make_residual,
    slow_cross_entropy,
    slow_distillation,
    slow_sigmoid_loss,
)

NEW = torch.tensor([2, 3, 2])


def batch_of_new() -> Batch:
    return make_batch(labels=NEW)


@pytest.mark.parametrize(("softmax_over", "first"), [("new", 2), ("seen", 0)])
def test_the_loss_is_that_of_the_labels_and_three_times_that_of_the_teacher(
    softmax_over: str, first: int
) -> None:
    method = in_second_task(make_trainer(), "lwf", softmax_over=softmax_over)
    batch = batch_of_new()
    terms = method.loss(batch)
    scores, old = method.predict(batch.views).detach(), method.teacher(batch.views)
    labels = [label - first for label in NEW.tolist()]
    assert old.shape == (3, 2)
    assert terms["classify"].item() == pytest.approx(
        slow_cross_entropy(scores[:, first:], labels), rel=1e-5
    )
    assert terms["distill"].item() == pytest.approx(
        3 * slow_distillation(scores, old, temperature=2), rel=1e-5
    )


def test_the_sigmoid_loss_follows_the_teacher_for_old_classes_and_the_label_for_new_ones() -> None:
    method = in_second_task(make_trainer(), "lwf", loss="sigmoid")
    batch = batch_of_new()
    scores, old = method.predict(batch.views).detach(), method.teacher(batch.views)
    expected = slow_sigmoid_loss(scores, NEW.tolist(), old, num_classes=4)
    assert sum(term.item() for term in method.loss(batch).values()) == pytest.approx(expected)


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_the_first_task_has_no_teacher(loss: str) -> None:
    trainer, method = make_trainer(), make_residual("lwf", loss=loss)
    method.begin_task(make_task(0), trainer.reader)
    assert set(method.loss(make_batch(labels=torch.tensor([0, 1, 0])))) == {"classify"}


def test_labels_of_new_classes_leave_the_rows_of_old_ones_to_the_teacher() -> None:
    method = in_second_task(make_trainer(), "lwf")
    with torch.no_grad():  # away from the teacher, where the gradient of its loss is 0
        method.classifier.weight[0] += 1
    terms = method.loss(batch_of_new())
    classify, distill = (
        torch.autograd.grad(terms[name], method.classifier.weight, retain_graph=True)[0][:2]
        for name in ("classify", "distill")
    )
    assert not classify.any()  # not even by rounding: these rows are no part of the loss
    assert float(distill.abs().max()) > 1e-3


def test_the_teacher_is_the_network_after_the_task_before_in_evaluation_mode() -> None:
    trainer, method = make_trainer(), make_residual("lwf")
    learn_task(method, 0, trainer)
    views = make_batch(seed=4).views
    with torch.no_grad():
        before = method.eval().predict(views)
    learn_task(method, 1, trainer)
    assert not any(module.training for module in method.teacher.network.modules())
    assert torch.equal(method.teacher(views), before)


def test_the_teacher_sees_the_views_that_the_student_sees() -> None:
    trainer, method = make_trainer("crop-flip"), make_residual("lwf")
    learn_task(method, 0, trainer)
    task = make_task(1)
    method.begin_task(task, trainer.reader)
    seen = Spy(method, "teacher")
    shown = Spy(method, "predict")
    for phase in method.phases(task, trainer.reader):
        trainer.fit(method, task, phase)
    assert len(seen.calls) == len(shown.calls) > 0
    for (views,), (others,) in zip(seen.calls, shown.calls, strict=True):
        assert torch.equal(views, others)


def test_a_warm_up_moves_the_new_rows_and_nothing_else() -> None:
    trainer = make_trainer()
    method = in_second_task(trainer, "lwf", warmup=SCHEDULE)
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    task = make_task(1)
    phases = method.phases(task, trainer.reader)
    trainer.fit(method, task, next(phases))
    moved = {name for name, tensor in method.state_dict().items() if (tensor != before[name]).any()}
    assert moved == {"classifier.weight", "classifier.bias"}
    assert torch.equal(method.classifier.weight[:2], before["classifier.weight"][:2])
    assert bool((method.classifier.weight[2:] != before["classifier.weight"][2:]).all())
    assert [phase.name for phase in phases] == ["train"]


def test_a_warm_up_comes_before_later_tasks_alone() -> None:
    trainer, method = make_trainer(), make_residual("lwf", warmup=SCHEDULE)
    assert {report.phase for report in learn_task(method, 0, trainer).reports} == {"train"}
    assert {report.phase for report in learn_task(method, 1, trainer).reports} == {
        "warm-up",
        "train",
    }


def test_a_warm_up_that_would_shrink_old_rows_is_refused() -> None:
    decaying = {**SCHEDULE, "optimizer": {"name": "sgd", "lr": 0.05, "weight_decay": 1e-4}}
    with pytest.raises(InputError, match="weight_decay must be 0"):
        make_residual("lwf", warmup=decaying)
