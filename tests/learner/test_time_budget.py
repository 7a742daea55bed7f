"""Minutes in place of epochs: by a clock that the tests move themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from remnant.learner import learn_into_store, time_budget, update
from remnant.learner.time_budget import MinutesPace, epochs_within
from remnant.learner.update_plan import UpdatePlan
from remnant.phases import StepReport
from tests.support.small_learner import stripes, tiny_learner

STEPS = 5  # per epoch


@dataclass
class Clock:
    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time_budget, "time", clock)
    monkeypatch.setattr(update, "time", clock)
    return clock


@pytest.fixture
def store(tmp_path: Path) -> Path:
    tiny_learner(epochs=None).partial_fit(*stripes("a", "c")).save(tmp_path / "x.remnant")
    return tmp_path / "x.remnant"


def report(step: int, epochs: int, phase: str = "train") -> StepReport:
    return StepReport(
        task=0, phase=phase, epoch=step // STEPS, num_epochs=epochs, step=step,
        num_steps=epochs * STEPS, terms={}, lr=0.1, images=8, images_per_second=8.0,
        is_epoch_end=(step + 1) % STEPS == 0,
    )  # fmt: skip


def train(clock: Clock, planned: int, seconds_per_step: Callable[[float], float]) -> list[int]:
    """Ten minutes, planned for so many epochs; steps take what the share of the time says.

    Returns:
        The epochs done, and before it every other number that was planned.
    """
    changes: list[int] = []
    began, epochs, step = clock.now, planned, 0
    pace = MinutesPace(planned, 10, began, changes.append)
    while step < epochs * STEPS:
        clock.now += seconds_per_step((clock.now - began) / 600)
        epochs = pace.epochs(report(step, epochs))
        step += 1
    return [*changes, step // STEPS]


@pytest.mark.parametrize(
    "seconds_per_step",
    [
        lambda share: 1.0,
        lambda share: 4.0,  # four times as slow as planned, all the time
        lambda share: 0.2,
        lambda share: 1.0 if share < 0.5 else 3.0,  # another program starts
        lambda share: 3.0 if share < 0.3 else 0.5,  # and ends
        lambda share: 0.5 + 2 * (int(share * 50) % 2),  # and comes and goes
    ],
)
def test_training_ends_on_time_whatever_else_the_machine_does(
    clock: Clock, seconds_per_step: Callable[[float], float]
) -> None:
    train(clock, 108, seconds_per_step)  # at a second per step these are 540 seconds
    assert 500 <= clock.now - 1000 <= 580  # of 600, a tenth of which is for what comes after


def test_a_speed_that_stays_changes_nothing(clock: Clock) -> None:
    assert train(clock, 108, lambda _: 1.02) == [108]


def test_a_phase_that_was_not_planned_keeps_its_epochs(clock: Clock) -> None:
    pace = MinutesPace(10, 1, clock.now, lambda _: pytest.fail("nothing is to change"))
    assert pace.epochs(report(0, 10)) == 10
    clock.now += 1000
    assert pace.epochs(report(STEPS - 1, 20, "tuning")) == 20


class Steps:
    """Moves the clock with every step, and may interrupt one."""

    def __init__(self, clock: Clock, seconds: float, stop_at: int | None = None) -> None:
        self._clock, self._seconds, self._stop_at = clock, seconds, stop_at
        self.last: StepReport | None = None

    def on_step(self, report: StepReport) -> None:
        self._clock.now += self._seconds
        self.last = report
        if report.step == self._stop_at:
            raise KeyboardInterrupt


def test_an_update_trains_as_long_as_its_minutes_are(
    store: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured before: 5 steps of 18 images take 0.45 seconds, so 12 epochs; they take 0.15."""
    monkeypatch.setattr(update, "seconds_per_image", lambda *_: 0.025)
    steps = Steps(clock, 0.03)
    state = learn_into_store(store, *stripes("e"), minutes=0.1, quiet=True, watchers=(steps,))
    assert steps.last is not None
    assert 33 <= state.history[-1]["epochs"] == steps.last.num_epochs <= 39
    assert steps.last.step + 1 == steps.last.num_steps  # where the learning rate ends
    assert 4.9 <= clock.now - 1000 <= 5.9


def test_an_interrupted_update_has_the_time_that_was_left(
    store: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "seconds_per_image", lambda *_: 0.025)
    steps = Steps(clock, 0.03, stop_at=100)
    with pytest.raises(KeyboardInterrupt):
        learn_into_store(store, *stripes("e"), minutes=0.1, quiet=True, watchers=(steps,))
    clock.now += 1e6  # a week later
    began = clock.now
    steps = Steps(clock, 0.03)
    state = learn_into_store(store, *stripes("e"), minutes=0.1, quiet=True, watchers=(steps,))
    assert 33 <= state.history[-1]["epochs"] <= 39
    assert 1.8 <= clock.now - began <= 3.0


@pytest.mark.parametrize("batch_size", [12, 6])
def test_an_update_of_few_steps_has_a_speed(
    monkeypatch: pytest.MonkeyPatch, batch_size: int
) -> None:
    """One or two steps, no more than are left out as slow where there are others."""
    speeds: list[float] = []

    def note(plan: UpdatePlan, minutes: float, speed: float) -> int:
        speeds.append(speed)
        return 1

    monkeypatch.setattr(update, "epochs_within", note)
    learner = tiny_learner(minutes=1e-3, epochs=1, batch_size=batch_size)
    learner.partial_fit(*stripes("a", "c"))
    assert len(speeds) == 1
    assert speeds[0] > 1e-6


def test_a_speed_that_could_not_be_measured_does_not_plan_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans: list[UpdatePlan] = []
    monkeypatch.setattr(update, "seconds_per_image", lambda *_: 0.0)
    monkeypatch.setattr(update, "epochs_within", lambda plan, *_: plans.append(plan) or 1)
    tiny_learner(minutes=1e-3).partial_fit(*stripes("a", "c"))
    assert epochs_within(plans[0], 1e6, 0.0) == 100_000
    assert epochs_within(plans[0], 1, 1.0) == 4  # of 12 images each, in 54 seconds


def test_no_time_at_all_is_one_epoch(store: Path) -> None:
    state = learn_into_store(store, *stripes("e"), minutes=1e-9, quiet=True)
    assert state.history[-1]["epochs"] == 1
