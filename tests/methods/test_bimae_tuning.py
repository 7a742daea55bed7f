from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from remnant.methods.bimae import BiMAE
from remnant.phases import Phase, StepReport
from tests.support.small_bimae import (
    SHORT,
    Spy,
    after_first_task,
    batches_of,
    learn,
    literal_twin,
    make_batch,
    make_method,
    make_task,
    make_trainer,
    shake,
)

# ------------------------------------------------------------------------------------ distillation


def literal_divergence(teacher: Tensor, student: Tensor, temperature: float) -> float:
    p = torch.softmax(teacher / temperature, dim=0).tolist()
    q = torch.softmax(student / temperature, dim=0).tolist()
    return temperature**2 * sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def test_distillation_compares_old_scores_with_those_of_the_network_before() -> None:
    trainer = make_trainer()
    method = after_first_task(trainer, distill_weight=0.7, distill_temperature=3.0)
    before = make_method(num_classes=2)
    before.load_state_dict(method.state_dict())
    method.begin_task(make_task(1), trainer.reader)
    shake(method, seed=1)  # the network has moved on, far enough for the loss not to be rounding
    batch = make_batch(4)
    spy = Spy(method.network, "encode_first")
    found = method.loss(batch)["distill"]
    masks = spy.calls[0][1].tolist()
    old, new = literal_twin(before), literal_twin(method)
    losses = [
        literal_divergence(
            old.scores(view, visible).detach(), new.scores(view, visible).detach()[:2], 3.0
        )
        for view, visible in zip(batch.views.double(), masks, strict=True)
    ]
    assert found.item() == pytest.approx(0.7 * sum(losses) / 4, rel=1e-4)
    assert found.item() > 1e-2


def test_the_teacher_is_seen_by_no_optimiser_and_never_changes() -> None:
    trainer = make_trainer()
    method = after_first_task(trainer, distill_weight=1.0)
    assert method.teacher is None  # in the first task there was nothing to keep
    expected = {name: value.clone() for name, value in method.network.state_dict().items()}
    learn(method, make_task(1), trainer)
    assert method.teacher is not None
    teacher = method.teacher.network
    assert teacher.classifier.num_classes == 2
    for name, value in teacher.state_dict().items():
        assert torch.equal(value, expected[name])
    assert not torch.equal(method.network.encoder.class_token, expected["encoder.class_token"])
    mine = {id(parameter) for parameter in method.parameters()}
    for parameter in teacher.parameters():
        assert id(parameter) not in mine
        assert parameter.grad is None
        assert not parameter.requires_grad


# ------------------------------------------------------------------------- tuning, alignment, pace


def weights(method: BiMAE) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in method.named_parameters()}


def test_training_moves_everything_and_tuning_the_classifier_alone() -> None:
    trainer, before = make_trainer(), {}
    method = after_first_task(trainer, balanced_tuning=SHORT)

    def note(phase: Phase) -> None:
        before[phase.name] = weights(method)

    learn(method, make_task(1), trainer, note)
    after = {"train": before["tune"], "tune": weights(method)}
    for phase, names in (
        ("train", set(before["train"])),
        ("tune", {"network.classifier.weight", "network.classifier.bias"}),
    ):
        moved = {
            name for name, old in before[phase].items() if not torch.equal(old, after[phase][name])
        }
        assert moved == names


@pytest.mark.parametrize("exact_view_ratio", [0.0, 1.0])
def test_tuning_shows_every_class_equally_often_and_completions_whole(
    exact_view_ratio: float,
) -> None:
    trainer = make_trainer()
    schedule = SHORT.model_copy(update={"epochs": 2})
    method = after_first_task(
        trainer, balanced_tuning=schedule, exact_view_ratio=exact_view_ratio, budget="1images/class"
    )
    method.begin_task(make_task(1), trainer.reader)
    *_, tune = method.phases(make_task(1), trainer.reader)
    assert tune.name == "tune"
    batches = batches_of(tune)
    counts = torch.cat([batch.labels for batch in batches]).bincount()
    assert counts.tolist() == [9, 9, 9, 9]  # 2 x (12 new and 6 replayed) images
    known = [batch.is_known for batch in batches if batch.is_known is not None]
    assert all(bool(grid.all()) for grid in known)


def test_alignment_makes_the_mean_row_lengths_of_old_and_new_classes_equal() -> None:
    trainer = make_trainer()
    method = after_first_task(trainer, align_weights=True)
    learn(method, make_task(1), trainer)
    lengths = method.network.classifier.weight.detach().norm(dim=1)
    torch.testing.assert_close(lengths[:2].mean(), lengths[2:].mean())
    other = after_first_task(trainer)
    learn(other, make_task(1), trainer)
    lengths = other.network.classifier.weight.detach().norm(dim=1)
    assert abs(float(lengths[:2].mean() / lengths[2:].mean()) - 1) > 0.05


class OneEpoch:
    """A pace for which one epoch is enough."""

    def epochs(self, report: StepReport) -> int:
        return 1


@pytest.mark.parametrize(("refresh", "expected"), [(None, {0}), (1, {0, 1, 2})])
def test_a_pace_is_asked_where_a_phase_has_all_epochs(
    refresh: int | None, expected: set[int]
) -> None:
    """Or `remnant learn --minutes` would not end in time; parts of a schedule stay as they are."""
    trainer, three = make_trainer(), SHORT.model_copy(update={"epochs": 3})
    method = make_method(first=three, refresh_every_epochs=refresh)
    learn(method, make_task(0), trainer)
    trainer.pace = OneEpoch()
    log = learn(method, make_task(1), trainer)
    assert {report.epoch for report in log.reports} == expected
