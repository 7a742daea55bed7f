"""What an update depends on: images, labels, settings and what is known, checked and at hand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from remnant._version import __version__
from remnant.errors import InputError
from remnant.images import Images, ImageSet, Task
from remnant.learner import defaults
from remnant.learner.defaults import LearnerSettings
from remnant.learner.inputs import Given, Label, fingerprint, gather_labelled, read, shorter_side
from remnant.learner.learner_state import Knowledge
from remnant.methods import METHODS
from remnant.training.processes import TrainingConfig

# Parameters of a learner that its first update fixes.
FIXED = ("budget", "method", "image_size", "codec", "width", "augment", "options", "seed")


@dataclass(frozen=True)
class Lesson:
    """An update that can begin."""

    settings: LearnerSettings  # with the schedule of this update
    classes: tuple[Label, ...]  # old ones, then new ones
    task: Task
    test: ImageSet | None
    num_stored: int  # exemplars that are replayed
    data_digest: str
    known_digest: str | None  # of what is known before

    @property
    def planned_images(self) -> list[int]:
        """For a progress bar: past updates are over."""
        passed = len(self.task.train) + self.num_stored
        return [0] * self.task.index + [passed * self.settings.method.first.epochs]

    @property
    def new_classes(self) -> list[Label]:
        return list(self.classes[self.task.num_old_classes :])

    @property
    def known_classes(self) -> list[Label]:
        """Old ones that get more images."""
        return [self.classes[label] for label in self.task.known_labels]

    def origin(self) -> str:
        """SHA-256 of all that decides what comes of the update."""
        told = [
            __version__,
            self.settings.model_dump(mode="json"),
            self.classes,
            self.task.index,
            self.data_digest,
            self.known_digest,
        ]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def prepare(
    before: Knowledge | None,
    parameters: Mapping[str, Any],
    images: Any,
    labels: Any,
    test: Any,
    training: TrainingConfig,
) -> Lesson:
    """Read everything that was handed in, and choose what nobody asked for.

    Args:
        parameters: Of `Learner`, as `plain` gives them.
        test: Images with their labels, as a pair, or a folder; None: nothing is measured.

    Raises:
        InputError: Something given cannot be used.
    """
    if before is not None:
        _check_fixed(parameters, before.parameters)
    given = gather_labelled(images, labels)
    classes = (*(before.classes if before else ()), *_new_classes(before, given))
    tested = None if test is None else _gather_test(test, classes)
    device = defaults.device_of(training)
    settings, pixels = _settle(before, parameters, given, training)
    task = _task(before, classes, _image_set(pixels, given, classes))
    _check_task(task, settings.method.name)
    memory = before.method.memory if before else None
    num_stored = 0 if memory is None else sum(memory.counts)
    method = defaults.schedule_update(
        settings.method, parameters, len(task.train) + num_stored, device
    )
    test_set = None
    if tested is not None:
        test_set = _image_set(read(tested, settings.image_size), tested, classes)
    data = f"{fingerprint(pixels)}{given.labels}"
    return Lesson(
        settings=settings.model_copy(update={"method": method}),
        classes=classes,
        task=task,
        test=test_set,
        num_stored=num_stored,
        data_digest=hashlib.sha256(data.encode()).hexdigest(),
        known_digest=before.digest() if before else None,
    )


def plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as JSON has them, whatever numbers and mappings they came as.

    Raises:
        InputError: One of them is neither text, number, list nor mapping.
    """

    def unwrap(value: Any) -> Any:
        if isinstance(value, Mapping):
            return dict(value)
        if hasattr(value, "item"):
            return value.item()
        raise InputError(f"a parameter must be text, a number or a mapping; got {value!r:.80}.")

    return json.loads(json.dumps(dict(parameters), default=unwrap))


def _settle(
    before: Knowledge | None,
    parameters: Mapping[str, Any],
    given: Given,
    training: TrainingConfig,
) -> tuple[LearnerSettings, Images]:
    """Settings, chosen if there are none yet, and the images at their size."""
    if before is not None:
        return before.settings, read(given, before.settings.image_size)
    device, size = defaults.device_of(training), parameters["image_size"]
    if size is None:
        size = defaults.choose_image_size(shorter_side(given), device)
    if isinstance(size, bool) or not isinstance(size, int) or not 8 <= size <= 2048:
        raise InputError(f"image_size must be a whole number from 8 to 2048; got {size!r}.")
    pixels = read(given, size)
    colours = defaults.measure_colours(pixels)
    return defaults.choose_settings(parameters, size, *colours, device), pixels


def _task(before: Knowledge | None, classes: tuple[Label, ...], train: ImageSet) -> Task:
    index = len(before.task_sizes) if before else 0
    num_old = len(before.classes) if before else 0
    return Task(index, index + 1, num_old, tuple(str(name) for name in classes[num_old:]), train)


def _image_set(images: Images, given: Given, classes: tuple[Label, ...]) -> ImageSet:
    numbers = {name: number for number, name in enumerate(classes)}
    labels = torch.tensor([numbers[name] for name in given.labels or ()], dtype=torch.int64)
    return ImageSet(images, labels, torch.arange(len(labels)))


def _new_classes(before: Knowledge | None, given: Given) -> list[Label]:
    known = before.classes if before else ()
    if len({isinstance(name, str) for name in (*known, *given.classes)}) > 1:
        raise InputError(
            "classes must be named by text, or all by whole numbers; got both. Use one of them "
            "throughout."
        )
    return [name for name in given.classes if name not in known]


def _gather_test(test: Any, classes: tuple[Label, ...]) -> Given:
    pair = test if isinstance(test, tuple) and len(test) == 2 else (test, None)
    given = gather_labelled(*pair)
    unknown = [name for name in given.classes if name not in classes]
    if unknown:
        raise InputError(
            f"test images must be of classes that are known by then; got {unknown[0]!r}. Leave "
            "them out."
        )
    return given


# ------------------------------------------------------------------------------------------- checks


def _check_fixed(parameters: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    for name in FIXED:
        now, then = parameters[name], before.get(name)
        if name == "options":
            now, then = _without_training(now), _without_training(then)
        if now != then:
            raise InputError(
                f"{name} was fixed by the first update: {then!r}; got {now!r}. Leave it as it was, "
                "or start anew with fit or another store."
            )


def _without_training(options: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (options or {}).items() if not key.startswith("training.")}


def _check_task(task: Task, method: str) -> None:
    if method == "joint" and task.index > 0:
        raise InputError("joint learns all classes in one update. Use fit, or another method.")
    if task.known_labels and not METHODS[method].takes_known_classes:
        able = [name for name, one in METHODS.items() if one.takes_known_classes]
        raise InputError(
            f"{method} cannot take more images of a class that it knows. Bring new classes alone, "
            f"or use {' or '.join(able)}."
        )
