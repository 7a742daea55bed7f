"""Epochs for a number of minutes: the speed of an update, measured on its first steps."""

from __future__ import annotations

import time
from collections.abc import Iterator
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
_PER_CLASS = 16  # images that speed is measured on
_SHARE = 0.9  # of the time; the rest is for coding exemplars and measuring


class _EnoughError(Exception):
    """Enough steps have been timed."""


class _Stopwatch:
    """Times a few steps, then stops the training that they belong to."""

    def __init__(self) -> None:
        self._began = 0.0
        self.images = 0
        self.seconds = 0.0

    def on_step(self, report: StepReport) -> None:
        now = time.perf_counter()
        if report.step < _WARM_UP_STEPS:
            self._began = now
            return
        self.images += report.images
        self.seconds = now - self._began
        if report.step + 1 >= _WARM_UP_STEPS + _TIMED_STEPS:
            raise _EnoughError


def measure_speed(method: Method[Any], task: Task, trainer: Trainer) -> float:
    """Seconds per image of training; the method is spoilt by it, so give a copy."""
    watch = _Stopwatch()
    with torch.random.fork_rng(devices=[]):
        method.eval()
        task = _few(task)
        method.begin_task(task, trainer.reader)
        phases: Iterator[Phase] = iter(method.phases(task, trainer.reader))
        with suppress(_EnoughError):
            trainer.fit(method, task, next(phases), watchers=(watch,))
    return watch.seconds / max(watch.images, 1)


def _few(task: Task) -> Task:
    """The task with some images of each class, as it may pass over all before it trains."""
    labels = task.train.labels
    kept = [(labels == label).nonzero()[:_PER_CLASS, 0] for label in labels.unique().tolist()]
    return replace(task, train=task.train.select(torch.cat(kept)))


def estimate(plan: UpdatePlan, seconds_per_image: float) -> str:
    """How long training will take at most, in words."""
    seconds = plan.planned_images[-1] * seconds_per_image
    if seconds < 60:
        return "less than a minute"
    return f"about {round(seconds / 60)} min"


def epochs_within(plan: UpdatePlan, minutes: float, seconds_per_image: float) -> int:
    """At least one, however short the time."""
    per_epoch = (len(plan.task.train) + plan.num_exemplars) * seconds_per_image
    return max(1, int(_SHARE * 60 * minutes / max(per_epoch, 1e-9)))


def with_epochs(config: LearnerConfig, epochs: int) -> LearnerConfig:
    """A config whose schedules are stretched to so many epochs."""
    changes = {
        name: schedule.stretched(epochs)
        for name in ("first", "later")
        if (schedule := getattr(config.method, name)) is not None
    }
    return config.model_copy(update={"method": config.method.model_copy(update=changes)})
