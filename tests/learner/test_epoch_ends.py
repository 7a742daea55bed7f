"""Accuracy at the ends of epochs, and training that ends when there is nothing left to learn."""

from __future__ import annotations

import pytest

from remnant.learner.epoch_ends import EpochEnds
from remnant.phases import PhaseDoneError, StepReport
from tests.support.small_learner import Counter, stripes, tiny_learner

EPOCHS = 40


def report(epoch: int, phase: str = "train") -> StepReport:
    """The only step of an epoch."""
    return StepReport(
        task=0, phase=phase, epoch=epoch, num_epochs=EPOCHS, step=epoch, num_steps=EPOCHS,
        terms={}, lr=0.1, images=8, images_per_second=8.0, is_epoch_end=True,
    )  # fmt: skip


class Told:
    def __init__(self) -> None:
        self.reports: list[StepReport] = []

    def on_step(self, report: StepReport) -> None:
        self.reports.append(report)


def test_progress_is_told_of_twenty_epochs_with_their_accuracy() -> None:
    told = Told()
    ends = EpochEnds(told, lambda: 71.5, can_stop=True)
    for epoch in range(EPOCHS):
        ends.on_step(report(epoch))
    shown = [one for one in told.reports if one.is_epoch_end]
    assert [one.epoch + 1 for one in shown] == list(range(2, EPOCHS + 1, 2))
    assert {one.accuracy for one in shown[:-1]} == {71.5}
    assert shown[-1].accuracy is None  # what comes last is measured once, after training


@pytest.mark.parametrize(
    ("accuracy", "epoch", "phase", "can_stop", "stops"),
    [
        (100.0, 11, "train", True, True),
        (100.0, 11, "tune", True, True),
        (99.5, 11, "train", True, False),
        (100.0, 3, "train", True, False),  # early, it may be luck
        (100.0, 11, "correction", True, False),
        (100.0, 11, "train", False, False),
    ],
)
def test_training_ends_when_all_is_right(
    accuracy: float, epoch: int, phase: str, can_stop: bool, stops: bool
) -> None:
    ends = EpochEnds(None, lambda: accuracy, can_stop=can_stop)
    if stops:
        with pytest.raises(PhaseDoneError):
            ends.on_step(report(epoch, phase))
        assert ends.stopped_after == epoch + 1
    else:
        ends.on_step(report(epoch, phase))
        assert ends.stopped_after is None


@pytest.mark.slow
@pytest.mark.numeric
def test_an_easy_update_ends_early_and_an_interrupted_one_where_it_would_have() -> None:
    images, labels = stripes("a", "c", per_class=100)
    learner = tiny_learner(epochs=None, learning_rate=0.1).fit(images, labels)
    (entry,) = learner.history_
    assert 10 <= entry["epochs"] < 100
    stopped = tiny_learner(epochs=None, learning_rate=0.1)
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(images, labels, watchers=(Counter(stop_at=70),))
    stopped.fit(images, labels)
    assert stopped.digest() == learner.digest()
    assert stopped.history_[0]["epochs"] == entry["epochs"]


def test_epochs_that_are_given_are_all_done() -> None:
    learner = tiny_learner(epochs=6, learning_rate=0.1)
    learner.fit(*stripes("a", "c", per_class=100))
    assert learner.history_[0]["epochs"] == 6
