"""One update of a learner: check the input, plan, train, and return the new state.

An update that is stopped continues from its last checkpoint when it is repeated with the same
images, labels and settings.
"""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from remnant._version import __version__
from remnant.encoders import describe_encoder
from remnant.errors import InputError
from remnant.images import Images, ImageSet, Task
from remnant.learner import defaults
from remnant.learner.encoder_choice import choose_encoder
from remnant.learner.inputs import (
    Label,
    RawInputs,
    fingerprint,
    gather_labelled,
    measure_colours,
    read,
    shorter_side,
)
from remnant.learner.learner_state import (
    LearnerConfig,
    LearnerParameters,
    LearnerState,
    restore,
    today,
)
from remnant.methods import METHODS, Method
from remnant.phases import StepReport, Watcher
from remnant.terminal.progress import watch
from remnant.terminal.reading_progress import count_images
from remnant.training.batches import Preprocessing
from remnant.training.checkpoints import Checkpoints, Point
from remnant.training.devices import Accelerator
from remnant.training.network_state import Arrays
from remnant.training.processes import Processes, acceleration_of
from remnant.training.task_loop import TaskLoop, standing_state
from remnant.training.trainer import Trainer

# Parameters that the first update fixes.
FIXED = (
    "budget", "method", "encoder", "image_size", "codec", "width", "augment", "options", "seed",
)  # fmt: skip
_EPOCH_LINES = 20  # of progress per phase, where there is no terminal for a bar


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
    began = time.perf_counter()
    training = defaults.choose_training(parameters)
    device = acceleration_of(training).accelerator
    plan = plan_update(before, parameters, images, labels, test, device)
    config, sizes = plan.config, before.task_sizes if before else ()
    saved = UpdateFolder(folder, plan)
    if before is not None and saved.is_done(before):
        return before
    learned = standing_state(before.method) if before else ({}, None)
    coming = (plan.task.num_new_classes,)
    method = restore(config, sizes, learned, "the learner", coming=coming)
    trainer = Trainer(
        Processes(training),
        Preprocessing(config.augment, config.mean, config.std),
        config.seed,
        accumulate=training.accumulate,
        checkpoint_every_steps=training.checkpoint_every_steps,
    )
    trainer.processes.prepare(method)
    with torch.random.fork_rng(devices=[]), ExitStack() as stack:
        if not parameters.quiet:
            Console(stderr=True).print(
                plan.describe(), highlight=False, markup=False, soft_wrap=True
            )
            if plan.trains:
                progress = stack.enter_context(watch(plan.planned_images))
                watchers = (*watchers, ThinnedProgress(progress))
            else:
                reading = stack.enter_context(count_images(len(plan.task.train)))
                trainer.reader.on_images = reading
        loop = TaskLoop(method, trainer, saved.checkpoints, config.seed, saved.save)
        loop.learn([plan.task], saved.begin(), watchers)
        entry = _history_entry(plan, method, trainer, time.perf_counter() - began)
    return LearnerState(
        parameters=parameters,
        config=before.config if before else config,
        classes=plan.classes,
        task_sizes=(*sizes, *coming),
        history=(*(before.history if before else ()), entry),
        method=method,
        origin=saved.origin,
    )


def _history_entry(
    plan: UpdatePlan, method: Method[Any], trainer: Trainer, seconds: float
) -> dict[str, Any]:
    accuracy = None
    if plan.test is not None:
        best = trainer.evaluate(method, plan.test)[:, 0]
        accuracy = round(100 * float((best == plan.test.labels).double().mean()), 2)
    return {
        "when": today(),
        "classes": list(plan.classes[plan.task.num_old_classes :]),
        "known_classes": [plan.classes[label] for label in plan.task.known_labels],
        "images": len(plan.task.train),
        "epochs": plan.config.method.first.epochs if plan.trains else 0,
        "seconds": round(seconds, 1),
        "accuracy": accuracy,
        "memory_bytes": 0 if method.memory is None else method.memory.nbytes,
    }


# ----------------------------------------------------------------------------------------- planning


@dataclass(frozen=True)
class UpdatePlan:
    """An update whose input has been read and checked."""

    config: LearnerConfig  # with the schedule of this update
    classes: tuple[Label, ...]  # old ones, then new ones
    task: Task
    test: ImageSet | None
    why: str  # the method of the first update was chosen
    num_exemplars: int  # that are replayed
    data_digest: str
    state_digest: str | None  # of the state before the update

    @property
    def planned_images(self) -> list[int]:
        """Images that each task shows, for a progress bar: past updates show none."""
        if not self.trains:
            return [0] * (self.task.index + 1)
        passed = len(self.task.train) + self.num_exemplars
        return [0] * self.task.index + [passed * self.config.method.first.epochs]

    def describe(self) -> str:
        """The update in one line; the first one says what was chosen."""
        if self.task.index == 0:
            return f"{defaults.describe(self.config)} ({self.why})"
        if not self.trains:
            return f"{len(self.task.train):,} images"
        return (
            f"{len(self.task.train):,} images and {self.num_exemplars:,} exemplars, "
            f"{self.config.method.first.epochs:,} epochs"
        )

    @property
    def trains(self) -> bool:
        return METHODS[self.config.method.name].trains

    def origin(self) -> str:
        """SHA-256 of all that decides the outcome of the update."""
        values = [
            __version__,
            self.config.model_dump(mode="json"),
            self.classes,
            self.task.index,
            self.data_digest,
            self.state_digest,
        ]
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def plan_update(
    before: LearnerState | None,
    parameters: LearnerParameters,
    images: Any,
    labels: Any,
    test: Any,
    device: Accelerator,
) -> UpdatePlan:
    """Read and check all input, and choose the settings that are not given.

    Raises:
        InputError: The input cannot be used.
    """
    if before is not None:
        _check_fixed(parameters, before.parameters)
    given = gather_labelled(images, labels)
    classes = (*(before.classes if before else ()), *_new_classes(before, given))
    tested = None if test is None else _gather_test(test, classes)
    config, pixels, why = _choose_and_read(before, parameters, given, device)
    index, num_old = (len(before.task_sizes), len(before.classes)) if before else (0, 0)
    names = tuple(str(name) for name in classes[num_old:])
    task = Task(index, index + 1, num_old, names, _image_set(pixels, given, classes))
    _check_task(task, config.method.name)
    num_exemplars = before.num_exemplars if before else 0
    num_images = len(task.train) + num_exemplars
    method = defaults.schedule_update(config.method, parameters, num_images, device)
    test_set = None
    if tested is not None:
        test_set = _image_set(read(tested, config.image_size), tested, classes)
    data = f"{fingerprint(pixels)}{given.labels}"
    return UpdatePlan(
        config=config.model_copy(update={"method": method}),
        classes=classes,
        task=task,
        test=test_set,
        why=why,
        num_exemplars=num_exemplars,
        data_digest=hashlib.sha256(data.encode()).hexdigest(),
        state_digest=before.digest() if before else None,
    )


def _choose_and_read(
    before: LearnerState | None,
    parameters: LearnerParameters,
    given: RawInputs,
    device: Accelerator,
) -> tuple[LearnerConfig, Images, str]:
    """The config, chosen in the first update, the images at its size, and why it was chosen."""
    if before is not None:
        return before.config, read(given, before.config.image_size), ""
    side = shorter_side(given)
    choice = choose_encoder(parameters, side)
    chosen = {"method": choice.method, "encoder": choice.encoder}
    parameters = parameters.model_copy(update=chosen)
    if choice.encoder is not None:
        encoder = describe_encoder(choice.encoder)
        pixels = read(given, parameters.image_size or encoder.image_size)
        colours = encoder.mean, encoder.std
    else:
        pixels = read(given, parameters.image_size or defaults.choose_image_size(side, device))
        colours = measure_colours(pixels)
    size = pixels.shape[0]
    return defaults.choose_config(parameters, size, *colours, device), pixels, choice.why


def _image_set(images: Images, given: RawInputs, classes: tuple[Label, ...]) -> ImageSet:
    numbers = {name: number for number, name in enumerate(classes)}
    labels = torch.tensor([numbers[name] for name in given.labels or ()], dtype=torch.int64)
    return ImageSet(images, labels, torch.arange(len(labels)))


def _new_classes(before: LearnerState | None, given: RawInputs) -> list[Label]:
    known = before.classes if before else ()
    if len({isinstance(name, str) for name in (*known, *given.classes)}) > 1:
        raise InputError(
            "the classes of a learner must all be text or all be whole numbers; got both."
        )
    return [name for name in given.classes if name not in known]


def _gather_test(test: Any, classes: tuple[Label, ...]) -> RawInputs:
    pair = test if isinstance(test, tuple) and len(test) == 2 else (test, None)
    given = gather_labelled(*pair)
    unknown = [name for name in given.classes if name not in classes]
    if unknown:
        raise InputError(
            f"test images must be of classes that the learner knows after the update; got "
            f"{unknown[0]!r}. Leave them out."
        )
    return given


def _check_fixed(parameters: LearnerParameters, before: LearnerParameters) -> None:
    for name in FIXED:
        now, then = getattr(parameters, name), getattr(before, name)
        if name == "options":
            now, then = _without_training(now), _without_training(then)
        if now != then:
            raise InputError(
                f"{name} was fixed by the first update: {then!r}; got {now!r}. Leave it out, or "
                "start over with fit or another store."
            )


def _without_training(options: dict[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (options or {}).items() if not key.startswith("training.")}


def _check_task(task: Task, method: str) -> None:
    if METHODS[method].learns_once and task.index > 0:
        raise InputError(f"{method} learns all classes in one update. Use fit, or another method.")
    if task.known_labels and not METHODS[method].takes_known_classes:
        able = [name for name, other in METHODS.items() if other.takes_known_classes]
        raise InputError(
            f"{method} cannot learn more images of a class that it already knows. Give new classes "
            f"only, or use {' or '.join(able)}."
        )


# --------------------------------------------------------------------------- progress, checkpoints


class ThinnedProgress:
    """Passes on at most so many ends of epochs, since small data sets have thousands."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def on_step(self, report: StepReport) -> None:
        every = -(-report.num_epochs // _EPOCH_LINES)
        is_shown = (report.epoch + 1) % every == 0 or report.step + 1 == report.num_steps
        self._watcher.on_step(replace(report, is_epoch_end=report.is_epoch_end and is_shown))


class UpdateFolder:
    """The checkpoints of one update, marked with the update that they belong to."""

    def __init__(self, folder: Path, plan: UpdatePlan) -> None:
        self.checkpoints = Checkpoints(folder)
        self.origin = plan.origin()
        self._start = Point(plan.task.index)
        self._mark = {"origin": self.origin, "data": plan.data_digest}

    def is_done(self, before: LearnerState) -> bool:
        """Whether a process was killed after it had finished this same update."""
        point = self._newest()
        if point is None or before.origin is None:
            return False
        mark = {"origin": before.origin, "data": self._mark["data"]}
        return self.checkpoints.load(point)[1] == mark

    def begin(self) -> Point:
        """Where to continue; checkpoints of other updates are removed."""
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
            return None  # all are damaged, so the update starts over
