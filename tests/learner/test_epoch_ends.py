"""Accuracy at the ends of epochs, and training that ends when there is nothing left to learn."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone

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
    ends = EpochEnds(told, lambda: (71.5, 0.9), can_stop=False)
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
    ends = EpochEnds(None, lambda: (accuracy, 0.9), can_stop=can_stop)
    if stops:
        with pytest.raises(PhaseDoneError):
            ends.on_step(report(epoch, phase))
        assert ends.stopped_after == epoch + 1
    else:
        ends.on_step(report(epoch, phase))
        assert ends.stopped_after is None


def cut_at(values: list[tuple[float, float]], ends: EpochEnds | None = None) -> tuple[int, int]:
    """After which epoch the schedule is cut, and to how many; both are all if it never is.

    Args:
        values: Accuracy and loss after every second epoch; the last of them stay.
    """
    given = iter(values)
    last = values[-1]
    ends = ends or EpochEnds(None, None, can_stop=True)
    ends._measure = lambda: next(given, last)
    for epoch in range(EPOCHS):
        ends.on_step(report(epoch))
        if (epochs := ends.epochs(report(epoch))) != EPOCHS:
            return epoch + 1, epochs
    return EPOCHS, EPOCHS


def test_a_schedule_is_cut_when_nothing_has_got_better_for_a_share_of_the_epochs() -> None:
    changes: list[int] = []
    ends = EpochEnds(None, None, can_stop=True, on_change=changes.append)
    # 0.3 of 40 after the best, and 0.1 of 40 for the rest of the learning rate.
    assert cut_at([(50.0, 1.0), (60.0, 0.9)], ends) == (4 + 12, 4 + 12 + 4)
    assert changes == [20]
    assert ends.why == (
        "held-out images got no better after epoch 4 of 40, so training ends after 20"
    )


def test_a_phase_that_cannot_be_cut_is_not_told_to_end_and_ends_when_all_is_right() -> None:
    """The trainer does not ask for the epochs of a phase that is trained in parts."""
    given = iter([(50.0, 1.0)] * 15)
    ends = EpochEnds(None, lambda: next(given, (100.0, 0.1)), can_stop=True)
    for epoch in range(30):
        ends.on_step(report(epoch))
    assert ends.why == ""
    ends.on_step(report(30))
    with pytest.raises(PhaseDoneError):
        ends.on_step(report(31))
    assert ends.why == "all held-out images are correct after 32 epochs, so training ends"


def test_a_better_loss_or_a_better_accuracy_is_enough_to_go_on() -> None:
    falling = [(50.0, 1.0 - step / 100) for step in range(20)]
    rising = [(50.0 + step, 1.0) for step in range(20)]
    assert cut_at(falling) == cut_at(rising) == (EPOCHS, EPOCHS)


def test_a_new_phase_starts_to_wait_anew() -> None:
    ends = EpochEnds(None, lambda: (50.0, 1.0), can_stop=True)
    for epoch in range(8):
        ends.on_step(report(epoch, "train"))
    for epoch in range(13):
        ends.on_step(report(epoch, "tune"))  # has waited for 10 epochs of its own
        assert ends.epochs(report(epoch, "tune")) == EPOCHS
    ends.on_step(report(13, "tune"))
    assert ends.epochs(report(13, "tune")) == 14 + 4


def test_patience_goes_on_after_an_interruption_where_it_was() -> None:
    ends = EpochEnds(None, lambda: (50.0, 1.0), can_stop=True)
    for epoch in range(8):
        ends.on_step(report(epoch))
    resumed = EpochEnds(None, lambda: (50.0, 1.0), can_stop=True)
    resumed.load_state(json.loads(json.dumps(ends.state())))
    for epoch in range(8, 14):
        assert resumed.epochs(report(epoch - 1)) == EPOCHS
        resumed.on_step(report(epoch))
    assert resumed.epochs(report(13)) == 14 + 4
    again = EpochEnds(None, lambda: (50.0, 1.0), can_stop=True)
    again.load_state(json.loads(json.dumps(resumed.state())))
    assert again.epochs(report(13)) == 14 + 4


@pytest.mark.numeric
@pytest.mark.parametrize("stop_at", [60, 200, "cut"])
def test_an_update_that_gains_nothing_ends_where_it_would_have_without_a_stop(
    stop_at: int | str,
) -> None:
    images, labels = stripes("a", "b", per_class=100)
    images = images[np.random.default_rng(0).permutation(len(images))]  # labels mean nothing
    learner = tiny_learner(epochs=None, batch_size=32)
    seen = Told()
    whole = clone(learner).fit(images, labels, watchers=(seen,))
    (entry,) = whole.history_
    assert 40 < entry["epochs"] < 100
    last = seen.reports[-1]
    assert (last.num_epochs, last.step + 1) == (entry["epochs"], last.num_steps)
    assert last.lr < 1e-3 * max(one.lr for one in seen.reports)  # it comes to its end
    if stop_at == "cut":  # after a checkpoint in what is left then
        stop_at = next(one.step for one in seen.reports if one.num_epochs < 100) + 9
    assert isinstance(stop_at, int)
    stopped = clone(learner)
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(images, labels, watchers=(Counter(stop_at=stop_at),))
    stopped.fit(images, labels)
    assert stopped.digest() == whole.digest()
    assert stopped.history_[0]["epochs"] == entry["epochs"]


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
