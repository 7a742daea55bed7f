"""Epochs for a number of minutes: planned by the speed of a few steps, corrected while it trains.

Minutes are those of a clock on the wall, since that is what somebody waits for. Other programs may
take a share of the machine and give it back, so that no measurement at the start is enough.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch

from remnant.images import Task
from remnant.learner.learner_state import LearnerConfig
from remnant.learner.update_plan import UpdatePlan
from remnant.methods import Method
from remnant.phases import Phase, StepReport
from remnant.training.trainer import Trainer

_WARM_UP_STEPS, _TIMED_STEPS = 2, 6
_TIMED_SECONDS = 1.0  # at least, so that what another program does in between counts for its share
_PER_CLASS = 16  # images that speed is measured on
_SHARE = 0.9  # of the time; the rest is for coding exemplars and measuring
_RECENT = 0.1  # of the time, in which the speed is measured while training
# Chosen: more are added while there is time. Phases trained in parts keep what was planned
# and must end even if nothing could be measured.
_MOST_EPOCHS = 100_000
_TOLERATED = 0.05  # of the epochs, too many or too few


class _EnoughError(Exception):
    """Enough steps have been timed."""


class _Stopwatch:
    """Times a few steps, then stops the training that they belong to.

    The first ones are slow and do not count, unless there are no others.
    """

    def __init__(self) -> None:
        self._began = self._last = time.perf_counter()
        self.images = 0
        self.seconds = 0.0

    def on_step(self, report: StepReport) -> None:
        now = time.perf_counter()
        if report.step == _WARM_UP_STEPS:
            self._began, self.images = self._last, 0
        self.images += report.images
        self.seconds = now - self._began
        self._last = now
        is_many = report.step + 1 >= _WARM_UP_STEPS + _TIMED_STEPS
        if is_many and self.seconds >= _TIMED_SECONDS:
            raise _EnoughError


def seconds_per_image(method: Method[Any], task: Task, trainer: Trainer) -> float:
    """Seconds of training per image; the method is spoilt by it, so give a copy."""
    with torch.random.fork_rng(devices=[]):
        method.eval()
        task = _few(task)
        method.begin_task(task, trainer.reader)
        phases: Iterator[Phase] = iter(method.shown_phases(task, trainer.reader))
        watch = _Stopwatch()
        with suppress(_EnoughError):
            trainer.fit(method, task, next(phases), watchers=(watch,))
    return watch.seconds / max(watch.images, 1)


def _few(task: Task) -> Task:
    """The task with some images of each class, as it may pass over all before it trains."""
    labels = task.train.labels
    kept = [(labels == label).nonzero()[:_PER_CLASS, 0] for label in labels.unique().tolist()]
    return replace(task, train=task.train.select(torch.cat(kept)))


def estimate(plan: UpdatePlan, speed: float) -> str:
    """How long training will take at most, in words; `speed` is in seconds per image."""
    seconds = plan.planned_images[-1] * speed
    if seconds < 60:
        return "less than a minute"
    return f"about {round(seconds / 60)} min"


def epochs_within(plan: UpdatePlan, minutes: float, speed: float) -> int:
    """At least one, however short the time; `speed` is in seconds per image."""
    per_epoch = (len(plan.task.train) + plan.num_exemplars) * speed
    fitting = _SHARE * 60 * minutes / max(per_epoch, 1e-9)
    return max(1, int(min(fitting, _MOST_EPOCHS)))


class MinutesPace:
    """Adds and drops epochs, so that an update ends when its minutes are over.

    The speed is that of the last tenth of the time. Small differences are left alone: a change of
    epochs is a change of the learning rate.
    """

    def __init__(self, epochs: int, minutes: float, began: float, on_change: Callable[[int], None]):
        """`began` is a reading of `time.monotonic`, `on_change` is told other epochs."""
        self._epochs = epochs
        self._seconds = _SHARE * 60 * minutes
        self._began = began
        self._on_change = on_change
        self._phase: str | None = None
        self._ends: deque[tuple[float, float]] = deque()  # times, and epochs done by then

    @property
    def spent(self) -> float:
        """Seconds so far, those before an interruption included."""
        return time.monotonic() - self._began

    def continue_after(self, seconds: float) -> None:
        """Count what an interrupted update had spent."""
        self._began -= seconds

    def epochs(self, report: StepReport) -> int:
        if self._phase is None:
            self._phase = report.phase
        if report.phase != self._phase:  # of those after the first nothing was planned
            return report.num_epochs
        now, steps_per_epoch = time.monotonic(), report.num_steps / report.num_epochs
        if not self._ends:
            before = now - report.images / report.images_per_second
            self._ends.append((before, report.step / steps_per_epoch))
        if not report.is_epoch_end:
            return self._epochs
        self._ends.append((now, float(report.epoch + 1)))
        while len(self._ends) > 2 and self._ends[1][0] < now - _RECENT * self._seconds:
            self._ends.popleft()
        (then, had), (_, done) = self._ends[0], self._ends[-1]
        time_left = self._began + self._seconds - now
        fitting = done + max(0.0, time_left) * (done - had) / max(now - then, 1e-9)
        if abs(fitting - self._epochs) > _TOLERATED * self._epochs:
            self._change(max(report.epoch + 1, round(fitting)))
        return self._epochs

    def _change(self, epochs: int) -> None:
        if epochs != self._epochs:
            self._epochs = epochs
            self._on_change(epochs)


def stretched_config(config: LearnerConfig, epochs: int) -> LearnerConfig:
    """A config whose schedules are stretched to so many epochs."""
    changes = {
        name: schedule.stretched(epochs)
        for name in ("first", "later")
        if (schedule := getattr(config.method, name)) is not None
    }
    return config.model_copy(update={"method": config.method.model_copy(update=changes)})
