"""One update of a learner: check the input, plan, train, and return the new state.

An update that is stopped continues from its last checkpoint when it is repeated with the same
images, labels and settings.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from remnant.errors import InputError
from remnant.images import ImageSet
from remnant.learner import defaults
from remnant.learner.epoch_ends import EpochEnds, watch_epochs
from remnant.learner.held_exemplars import keep_held, split_exemplars, take_out
from remnant.learner.learner_state import LearnerParameters, LearnerState, restore, today
from remnant.learner.measuring import Measured, measure_update
from remnant.learner.score_calibration import calibrate
from remnant.learner.time_budget import (
    MinutesPace,
    epochs_within,
    estimate,
    measure_speed,
    with_epochs,
)
from remnant.learner.update_plan import UpdatePlan, plan_update
from remnant.methods import Method
from remnant.phases import NotedWatcher, ReadingWatcher, Watcher
from remnant.terminal.progress import watch
from remnant.terminal.reading_progress import count_images
from remnant.terminal.visible import visible
from remnant.training.batches import Preprocessing
from remnant.training.checkpoints import Checkpoints, Point
from remnant.training.network_state import Arrays
from remnant.training.processes import Processes, acceleration_of
from remnant.training.reader import ViewReader
from remnant.training.task_loop import TaskLoop
from remnant.training.trainer import Trainer

_ENDS, _SPENT = "epoch_ends", "seconds"  # in the metadata of a checkpoint
_WORTH_AN_ESTIMATE = 2_000  # images to be shown; fewer take seconds


def run_update(
    before: LearnerState | None,
    parameters: LearnerParameters,
    images: Any,
    labels: Any,
    test: Any,
    folder: Path,
    watchers: tuple[Watcher, ...] = (),
) -> LearnerState:
    """The state after one more update; `before` is left unchanged.

    Args:
        before: None for the first update.
        test: Images with their labels, as a pair, or a folder; None: no accuracy is measured.
        folder: For checkpoints. Those of the same update are continued, others are removed.

    Returns:
        The new state. Its method is the one that was trained, so it may still hold a teacher;
        `LearnerState.copy_method` gives one without.

    Raises:
        InputError: The input cannot be used.
    """
    began = time.monotonic()
    training = defaults.choose_training(parameters)
    device = acceleration_of(training).accelerator
    plan = plan_update(before, parameters, images, labels, test, device)
    sizes = before.task_sizes if before else ()
    learned = before.method if before else None
    coming = (plan.task.num_new_classes,)
    look = Preprocessing(plan.config.augment, plan.config.mean, plan.config.std)
    trainer = Trainer(
        Processes(training),
        look,
        plan.config.seed,
        accumulate=training.accumulate,
        checkpoint_every_steps=training.checkpoint_every_steps,
    )

    def build() -> Method[Any]:
        method = restore(plan.config, sizes, learned, "the learner", coming=coming)
        if method.memory is not None:
            method.memory.folder = folder
        take_out(method, plan.held_exemplars)
        trainer.processes.prepare(method)
        return method

    speed = None
    is_told = not parameters.quiet and plan.planned_images[-1] >= _WORTH_AN_ESTIMATE
    if plan.trains and (parameters.minutes is not None or is_told):
        speed = measure_speed(build(), plan.task, trainer)
    saved = UpdateFolder(folder, plan, parameters)
    if plan.trains and not saved.take_epochs() and parameters.minutes is not None:
        assert speed is not None, "it was measured"
        minutes = parameters.minutes - (time.monotonic() - began) / 60
        saved.change_epochs(epochs_within(plan, minutes, speed))
    plan = saved.plan
    if before is not None and saved.is_done(before):
        return before
    method, planned = build(), plan.planned_images
    held_out, trained_on = _to_measure(before, plan, trainer.reader)
    for watcher in watchers:
        if isinstance(watcher, NotedWatcher):
            watcher.on_notes(plan.notes)
    with torch.random.fork_rng(devices=[]), ExitStack() as stack:
        progress = None
        if not plan.trains:
            trainer.reader.on_images = Reading(len(plan.task.train), watchers)
        if not parameters.quiet:
            console = Console(stderr=True)
            notes = (f"note: {visible(note)}" for note in plan.notes)
            about = "" if speed is None else f"; {estimate(plan, speed)}"
            for line in (f"{plan.describe()}{about}", *notes):
                console.print(line, highlight=False, markup=False, soft_wrap=True)
            if plan.trains:
                progress = stack.enter_context(watch(planned))
            else:
                bar = stack.enter_context(count_images(len(plan.task.train)))
                trainer.reader.on_images = Reading(len(plan.task.train), watchers, bar)

        def change(epochs: int) -> None:
            saved.change_epochs(epochs)
            planned[:] = saved.plan.planned_images

        ends = None
        if plan.trains:
            is_free = parameters.epochs is None and parameters.minutes is None
            is_free = is_free and plan.held_back is not None  # old classes alone show no progress
            ends = watch_epochs(
                method, held_out, trainer.reader, progress, can_stop=is_free, on_change=change
            )
            watchers = (*watchers, ends)
            saved.ends = trainer.pace = ends
        if plan.trains and parameters.minutes is not None:
            epochs = plan.config.method.first.epochs
            saved.pace = trainer.pace = MinutesPace(epochs, parameters.minutes, began, change)
        loop = TaskLoop(method, trainer, saved.checkpoints, plan.config.seed, saved.save)
        loop.learn([plan.task], saved.begin(), watchers)
        memory = before.method.memory if before else None
        untrained = keep_held(
            method, memory, plan.held_exemplars, plan.task, plan.held_back, trainer.reader
        )
    plan = saved.plan
    config = plan.config
    epochs = config.method.first.epochs if plan.trains else 0
    if ends is not None and ends.stopped_after is not None:
        epochs = ends.stopped_after
    if ends is not None and ends.why and not parameters.quiet:
        Console(stderr=True).print(ends.why, highlight=False)
    measured = measure_update(
        plan.classes,
        before.method if before else None,
        method.eval(),
        plan.task.num_old_classes,
        ViewReader(trainer.processes, look, config.seed),
        test=plan.test,
        held_out=held_out,
        trained_on=trained_on,
    )
    if measured is not None and parameters.guard is not None:
        measured.check(parameters.guard)
    calibration = None
    if held_out:
        scores = torch.cat([trainer.reader.apply(method.predict, part) for part in held_out])
        calibration = calibrate(scores, torch.cat([part.labels for part in held_out]))
    entry = _history_entry(plan, method, measured, epochs, time.monotonic() - began)
    return LearnerState(
        parameters=parameters,
        config=before.config if before else config,
        classes=plan.classes,
        task_sizes=(*sizes, *coming),
        history=(*(before.history if before else ()), entry),
        method=method,
        origin=saved.origin,
        calibration=calibration,
        untrained=untrained,
    )


def _to_measure(
    before: LearnerState | None, plan: UpdatePlan, reader: ViewReader
) -> tuple[list[ImageSet], ImageSet | None]:
    """Images that the update is not trained on, and exemplars of classes that spare none."""
    held_out = [] if plan.held_back is None else [plan.held_back]
    if before is None or plan.test is not None or not plan.trains:
        return held_out, None
    exemplars, trained_on = split_exemplars(before.method, plan.held_exemplars, reader)
    return held_out + ([] if exemplars is None else [exemplars]), trained_on


def _history_entry(
    plan: UpdatePlan,
    method: Method[Any],
    measured: Measured | None,
    epochs: int,
    seconds: float,
) -> dict[str, Any]:
    return {
        "when": today(),
        "classes": list(plan.classes[plan.task.num_old_classes :]),
        "known_classes": [plan.classes[label] for label in plan.task.known_labels],
        "images": len(plan.task.train),
        "epochs": epochs,
        "seconds": round(seconds, 1),
        "memory_bytes": 0 if method.memory is None else method.memory.nbytes,
        **({"accuracy": None} if measured is None else measured.entry()),
    }


# --------------------------------------------------------------------------- progress, checkpoints


class Reading:
    """Counts the images that were read, and tells watchers that want to know."""

    def __init__(
        self,
        num_images: int,
        watchers: tuple[Watcher, ...],
        bar: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._num_images = num_images
        self._watchers = [one for one in watchers if isinstance(one, ReadingWatcher)]
        self._bar = bar
        self._num_read = 0

    def __call__(self, count: int) -> None:
        self._num_read = min(self._num_read + count, self._num_images)  # some are read twice
        self._bar(count)
        for watcher in self._watchers:
            watcher.on_images(self._num_read, self._num_images)


class UpdateFolder:
    """The checkpoints of one update, marked with the update that they belong to."""

    ends: EpochEnds | None = None  # what it knows is saved and loaded too
    pace: MinutesPace | None = None  # likewise

    def __init__(self, folder: Path, plan: UpdatePlan, parameters: LearnerParameters) -> None:
        self.checkpoints = Checkpoints(folder)
        self.plan = plan
        self._start = Point(plan.task.index)
        names = ("epochs", "minutes", "batch_size", "learning_rate")
        self._asked = [getattr(parameters, name) for name in names]

    @property
    def origin(self) -> str:
        return self.plan.origin()

    @property
    def _mark(self) -> dict[str, Any]:
        return {
            "origin": self.origin,
            "data": self.plan.data_digest,
            "asked": self._asked,
            "epochs": self.plan.config.method.first.epochs,
        }

    def change_epochs(self, epochs: int) -> None:
        """Go on with another number of epochs, which later checkpoints belong to."""
        self.plan = replace(self.plan, config=with_epochs(self.plan.config, epochs))

    def take_epochs(self) -> bool:
        """Whether this update was interrupted; then it has the epochs that it had, to continue."""
        point, planned = self._newest(), self.plan
        mark = {} if point is None else self._split(point)[0]
        if isinstance(mark.get("epochs"), int):
            self.change_epochs(mark["epochs"])
        if mark == self._mark:
            return True
        self.plan = planned
        return False

    def is_done(self, before: LearnerState) -> bool:
        """Whether a process was killed after it had finished this same update.

        Its epochs may have been others, as they follow the number of exemplars.
        """
        point = self._newest()
        if point is None or before.origin is None:
            return False
        mark = self._split(point)[0]
        return mark == self._mark | {"origin": before.origin, "epochs": mark.get("epochs")}

    def begin(self) -> Point:
        """Where to continue; checkpoints of other updates are removed."""
        point = self._newest()
        if point is not None:
            mark, state = self._split(point)
            if mark == self._mark:
                if self.ends is not None and _ENDS in state:
                    self.ends.load_state(state[_ENDS])
                if self.pace is not None and _SPENT in state:
                    self.pace.continue_after(state[_SPENT])
                return point
        for stale in self.checkpoints.points():
            (self.checkpoints.folder / stale.file_name).unlink(missing_ok=True)
        self.save(self._start, {})
        return self._start

    def save(self, point: Point, arrays: Arrays) -> None:
        state: dict[str, Any] = {}
        if self.ends is not None:
            state[_ENDS] = self.ends.state()
        if self.pace is not None:
            state[_SPENT] = self.pace.spent
        self.checkpoints.save(point, arrays, self._mark | state)

    def _split(self, point: Point) -> tuple[dict[str, Any], dict[str, Any]]:
        """The mark of a point, and the state of what watched it."""
        mark = dict(self.checkpoints.load(point)[1])
        return mark, {name: mark.pop(name) for name in (_ENDS, _SPENT) if name in mark}

    def _newest(self) -> Point | None:
        try:
            return self.checkpoints.newest_readable()
        except InputError:
            return None  # all are damaged, so the update starts over
