"""One update: from images and labels to more knowledge, in steps that survive a stop."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from remnant.errors import InputError
from remnant.learner import defaults
from remnant.learner.defaults import LearnerSettings
from remnant.learner.learner_state import Knowledge, revive, today
from remnant.learner.lessons import Lesson, plain, prepare
from remnant.methods import Method
from remnant.phases import StepReport, Watcher
from remnant.terminal.progress import watch
from remnant.training.batches import Look
from remnant.training.checkpoints import Checkpoints, Point
from remnant.training.network_state import Arrays
from remnant.training.processes import Processes, TrainingConfig
from remnant.training.task_loop import TaskLoop, standing_state
from remnant.training.trainer import Trainer

_LINES = 20  # that tell of one phase, where there is no terminal for a bar


def update(
    before: Knowledge | None,
    parameters: Mapping[str, Any],
    images: Any,
    labels: Any,
    test: Any,
    work: Path,
    watchers: tuple[Watcher, ...] = (),
) -> Knowledge:
    """Knowledge after one more update; what it builds on is left as it is.

    Args:
        before: None: nothing is known yet.
        parameters: Of `Learner`.
        work: A folder for checkpoints. An update of the same data that was stopped goes on from
            there; checkpoints of any other are removed.

    Raises:
        InputError: Something given cannot be used.
    """
    began = time.perf_counter()
    parameters = plain(parameters)
    training = defaults.training_of(parameters)
    lesson = prepare(before, parameters, images, labels, test, training)
    place = Work(work, lesson)
    if before is not None and place.is_done(before):
        return before
    method = _get_ready(before, lesson)
    trainer = build_trainer(lesson.settings, training)
    trainer.processes.prepare(method)
    with torch.random.fork_rng(devices=[]), ExitStack() as stack:
        if not parameters["quiet"]:
            _tell(lesson)
            watchers = (*watchers, Sparse(stack.enter_context(watch(lesson.planned_images))))
        loop = TaskLoop(method, trainer, place.checkpoints, lesson.settings.seed, place.save)
        loop.learn([lesson.task], place.begin(), watchers)
        record = _record(lesson, method, trainer, time.perf_counter() - began)
    sizes = (*(before.task_sizes if before else ()), lesson.task.num_new_classes)
    settings = before.settings if before else lesson.settings
    return Knowledge(
        parameters=parameters,
        settings=settings,
        classes=lesson.classes,
        task_sizes=sizes,
        history=(*(before.history if before else ()), record),
        # Made anew, without the teacher and the completions that the update needed.
        method=revive(settings, sizes, *standing_state(method), "the learner"),
        origin=place.origin,
    )


def build_trainer(settings: LearnerSettings, training: TrainingConfig) -> Trainer:
    return Trainer(
        Processes(training),
        Look(settings.augment, settings.mean, settings.std),
        settings.seed,
        accumulate=training.accumulate,
        checkpoint_every_steps=training.checkpoint_every_steps,
    )


def _get_ready(before: Knowledge | None, lesson: Lesson) -> Method[Any]:
    arrays, words = standing_state(before.method) if before else ({}, None)
    sizes = before.task_sizes if before else ()
    coming = (lesson.task.num_new_classes,)
    return revive(lesson.settings, sizes, arrays, words, "the learner", coming=coming)


def _record(
    lesson: Lesson, method: Method[Any], trainer: Trainer, seconds: float
) -> dict[str, Any]:
    """What the history tells of an update."""
    accuracy = None
    if lesson.test is not None:
        best = trainer.evaluate(method, lesson.test)[:, 0]
        accuracy = round(100 * float((best == lesson.test.labels).double().mean()), 2)
    return {
        "when": today(),
        "classes": lesson.new_classes,
        "known_classes": lesson.known_classes,
        "images": len(lesson.task.train),
        "epochs": lesson.settings.method.first.epochs,
        "seconds": round(seconds, 1),
        "accuracy": accuracy,
        "memory_bytes": 0 if method.memory is None else method.memory.nbytes,
    }


# ---------------------------------------------------------------------------------- what is shown


class Sparse:
    """Passes on so many ends of epochs at most, since tiny data have thousands of epochs."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def on_step(self, report: StepReport) -> None:
        every = -(-report.num_epochs // _LINES)
        is_told = (report.epoch + 1) % every == 0 or report.step + 1 == report.num_steps
        self._watcher.on_step(replace(report, is_epoch_end=report.is_epoch_end and is_told))


def _tell(lesson: Lesson) -> None:
    line = defaults.describe(lesson.settings)
    if lesson.task.index > 0:
        epochs = lesson.settings.method.first.epochs
        line = f"{len(lesson.task.train):,} images and {lesson.num_stored:,} exemplars, "
        line += f"{epochs:,} epochs"
    Console(stderr=True).print(line, highlight=False, markup=False, soft_wrap=True)


# ------------------------------------------------------------------------------- the work folder


class Work:
    """The checkpoints of one update, marked with what it is an update of."""

    def __init__(self, folder: Path, lesson: Lesson) -> None:
        self.checkpoints = Checkpoints(folder)
        self.origin = lesson.origin()
        self._start = Point(lesson.task.index)
        self._mark = {"origin": self.origin, "data": lesson.data_digest}

    def is_done(self, before: Knowledge) -> bool:
        """Whether a process was killed when it had finished this very update."""
        point = self._newest()
        if point is None or before.origin is None:
            return False
        mark = {"origin": before.origin, "data": self._mark["data"]}
        return self.checkpoints.load(point)[1] == mark

    def begin(self) -> Point:
        """Where to go on from; what belongs to another update is removed."""
        point = self._newest()
        if point is not None and self.checkpoints.load(point)[1] == self._mark:
            return point
        for stale in self.checkpoints.points():
            (self.checkpoints.folder / stale.file_name).unlink(missing_ok=True)
        self.save(self._start, {})
        return self._start

    def save(self, point: Point, arrays: Arrays) -> None:
        self.checkpoints.save(point, arrays, self._mark)

    def _newest(self) -> Point | None:
        try:
            return self.checkpoints.newest_readable()
        except InputError:
            return None  # all damaged, so all is to be done again
