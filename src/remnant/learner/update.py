"""One update of a learner: check the input, plan, train, and return the new state.

An update that is stopped continues from its last checkpoint when it is repeated with the same
images, labels and settings.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from remnant.images import ImageSet
from remnant.learner import defaults
from remnant.learner.epoch_ends import EpochEnds, watch_epochs
from remnant.learner.held_exemplars import keep_held, split_exemplars, take_out
from remnant.learner.learner_state import LearnerParameters, LearnerState, restore, today
from remnant.learner.measuring import Measured, measure_update
from remnant.learner.score_calibration import Calibration, calibrate
from remnant.learner.store_checks import check_beside
from remnant.learner.time_budget import MinutesPace, epochs_within, estimate, seconds_per_image
from remnant.learner.update_folder import UpdateFolder
from remnant.learner.update_plan import UpdatePlan, check_plan, plan_update
from remnant.methods import Method
from remnant.phases import NotedWatcher, ReadingWatcher, Watcher
from remnant.terminal.progress import watch
from remnant.terminal.reading_progress import count_images
from remnant.terminal.update_lines import print_end, print_plan
from remnant.training.batches import Preprocessing
from remnant.training.processes import Processes, acceleration_of
from remnant.training.reader import ViewReader
from remnant.training.task_loop import TaskLoop
from remnant.training.trainer import Trainer

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
    saved = UpdateFolder(folder, plan, parameters)
    if before is not None:
        if saved.is_done(before):
            return before
        saved.plan = check_plan(plan, before, parameters.guard)
    if training.threads is None:  # what was interrupted goes on with the threads that it had
        training = training.model_copy(update={"threads": saved.threads()})
    look = Preprocessing(plan.config.augment, plan.config.mean, plan.config.std)
    trainer = Trainer(
        Processes(training),
        look,
        plan.config.seed,
        accumulate=training.accumulate,
        checkpoint_every_steps=training.checkpoint_every_steps,
    )
    update = _Update(before, parameters, trainer, saved, began)
    speed = update.choose_epochs()
    for watcher in watchers:
        if isinstance(watcher, NotedWatcher):
            watcher.on_notes(saved.plan.notes)
    with torch.random.fork_rng(devices=[]):
        trained = update.train(watchers, speed)
    reader = ViewReader(trainer.processes, look, plan.config.seed)
    return update.finish(trained, reader)


@dataclass(frozen=True)
class _Trained:
    """The result of training, before it is measured."""

    method: Method[Any]
    held_out: list[ImageSet]  # images that it was not trained on
    trained_on: ImageSet | None  # exemplars of classes that spare none
    epochs: int
    untrained: tuple[str, ...]  # digests of exemplars that were held back


@dataclass
class _Update:
    """One update on its way."""

    before: LearnerState | None
    parameters: LearnerParameters
    trainer: Trainer
    saved: UpdateFolder
    began: float

    @property
    def plan(self) -> UpdatePlan:
        return self.saved.plan

    def build(self) -> Method[Any]:
        """The method as it is before this update, ready to be trained."""
        sizes = self.before.task_sizes if self.before else ()
        learned = self.before.method if self.before else None
        coming = (self.plan.task.num_new_classes,)
        method = restore(self.plan.config, sizes, learned, "the learner", coming=coming)
        # Refused before hours of training: its store would be refused.
        check_beside(method, "the network", "Choose smaller images, or a smaller network.")
        if method.memory is not None:
            method.memory.folder = self.saved.checkpoints.folder
        take_out(method, self.plan.held_exemplars)
        self.trainer.processes.prepare(method)
        return method

    def choose_epochs(self) -> float | None:
        """As many as fit into the minutes, unless they are those of an interrupted update.

        Returns:
            Seconds per image on this machine, where they were measured.
        """
        if not self.plan.trains:
            return None
        minutes, speed = self.parameters.minutes, None
        is_told = not self.parameters.quiet and self.plan.planned_images[-1] >= _WORTH_AN_ESTIMATE
        if minutes is not None or is_told:
            speed = seconds_per_image(self.build(), self.plan.task, self.trainer)
        if not self.saved.take_epochs() and minutes is not None:
            assert speed is not None, "it was measured"
            left = minutes - (time.monotonic() - self.began) / 60
            self.saved.change_epochs(epochs_within(self.plan, left, speed))
        return speed

    # -------------------------------------------------------------------------------- training

    def train(self, watchers: tuple[Watcher, ...], speed: float | None) -> _Trained:
        plan, reader = self.plan, self.trainer.reader
        method, planned = self.build(), plan.planned_images
        held_out, trained_on = _to_measure(self.before, plan, reader)
        with ExitStack() as stack:
            progress = self._show_progress(stack, planned, watchers, speed)
            ends = None
            if plan.trains:
                ends = self._watch_epochs(method, held_out, progress, planned)
                watchers = (*watchers, ends)
            loop = TaskLoop(
                method, self.trainer, self.saved.checkpoints, plan.config.seed, self.saved.save
            )
            loop.learn([plan.task], self.saved.begin(), watchers)
            memory = self.before.method.memory if self.before else None
            untrained = keep_held(
                method, memory, plan.held_exemplars, plan.task, plan.held_back, reader
            )
        if ends is not None and ends.why and not self.parameters.quiet:
            print_end(ends.why)
        return _Trained(method, held_out, trained_on, self._epochs(ends), untrained)

    def _epochs(self, ends: EpochEnds | None) -> int:
        """Number of epochs that were trained."""
        if ends is None:
            return 0
        planned = self.plan.config.method.first.epochs
        return planned if ends.stopped_after is None else ends.stopped_after

    def _show_progress(
        self,
        stack: ExitStack,
        planned: list[int],
        watchers: tuple[Watcher, ...],
        speed: float | None,
    ) -> Watcher | None:
        """A bar, and before it what is about to happen; for an update that trains, the bar."""
        num_images, bar, progress = len(self.plan.task.train), None, None
        if not self.parameters.quiet:
            self._announce(speed)
            if self.plan.trains:
                progress = stack.enter_context(watch(planned))
            else:
                bar = stack.enter_context(count_images(num_images))
        if not self.plan.trains:
            self.trainer.reader.on_images = Reading(num_images, watchers, bar)
        return progress

    def _announce(self, speed: float | None) -> None:
        about = "" if speed is None else f"; {estimate(self.plan, speed)}"
        print_plan(f"{self.plan.describe()}{about}", self.plan.notes)

    def _watch_epochs(
        self,
        method: Method[Any],
        held_out: list[ImageSet],
        progress: Watcher | None,
        planned: list[int],
    ) -> EpochEnds:
        """Looks at held-out images after epochs, and keeps the minutes if there are any."""

        def change(epochs: int) -> None:
            self.saved.change_epochs(epochs)
            planned[:] = self.plan.planned_images

        minutes = self.parameters.minutes
        is_free = self.parameters.epochs is None and minutes is None
        is_free = is_free and self.plan.held_back is not None  # old classes alone show no progress
        ends = watch_epochs(
            method, held_out, self.trainer.reader, progress, can_stop=is_free, on_change=change
        )
        self.saved.ends = self.trainer.pace = ends
        if minutes is not None:
            epochs = self.plan.config.method.first.epochs
            pace = MinutesPace(epochs, minutes, self.began, change)
            self.saved.pace = self.trainer.pace = pace
        return ends

    # --------------------------------------------------------------------------------- results

    def finish(self, trained: _Trained, reader: ViewReader) -> LearnerState:
        """Measure what the update did; the state after it.

        Raises:
            GuardError: Old classes lost more than is allowed.
        """
        before, plan, method = self.before, self.plan, trained.method
        measured = measure_update(
            plan.classes,
            before.method if before else None,
            method.eval(),
            plan.task.num_old_classes,
            reader,
            test=plan.test,
            held_out=trained.held_out,
            trained_on=trained.trained_on,
        )
        if measured is not None and self.parameters.guard is not None:
            measured.check(self.parameters.guard)
        seconds = time.monotonic() - self.began
        entry = _history_entry(plan, method, measured, trained.epochs, seconds)
        return LearnerState(
            parameters=self.parameters,
            config=before.config if before else plan.config,
            classes=plan.classes,
            task_sizes=(*(before.task_sizes if before else ()), plan.task.num_new_classes),
            history=(*(before.history if before else ()), entry),
            method=method,
            origin=self.saved.origin,
            calibration=self._calibrate(trained),
            untrained=trained.untrained,
        )

    def _calibrate(self, trained: _Trained) -> Calibration | None:
        if not trained.held_out:
            return None
        predict, reader = trained.method.predict, self.trainer.reader
        scores = torch.cat([reader.apply(predict, part) for part in trained.held_out])
        return calibrate(scores, torch.cat([part.labels for part in trained.held_out]))


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


class Reading:
    """Counts the images that were read, and tells watchers that want to know."""

    def __init__(
        self,
        num_images: int,
        watchers: tuple[Watcher, ...],
        bar: Callable[[int], None] | None = None,
    ) -> None:
        self._num_images = num_images
        self._watchers = [one for one in watchers if isinstance(one, ReadingWatcher)]
        self._bar = bar
        self._num_read = 0

    def __call__(self, count: int) -> None:
        self._num_read = min(self._num_read + count, self._num_images)  # some are read twice
        if self._bar is not None:
            self._bar(count)
        for watcher in self._watchers:
            watcher.on_images(self._num_read, self._num_images)
