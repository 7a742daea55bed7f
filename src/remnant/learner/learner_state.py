"""What a learner knows between two updates, and how it is brought to life and cut."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from remnant.archives import archive_digest
from remnant.errors import InputError, nearest
from remnant.learner.defaults import LearnerSettings
from remnant.learner.inputs import Label
from remnant.methods import Method, build_method
from remnant.models.classifier import LinearClassifier
from remnant.training.network_state import Arrays
from remnant.training.task_loop import empty_tasks, load_standing_state, standing_state


@dataclass(frozen=True)
class Knowledge:
    """All that a store holds. The method is alive: grown, with its weights and its memory."""

    parameters: dict[str, Any]  # of `Learner`, as JSON has them
    settings: LearnerSettings
    classes: tuple[Label, ...]
    task_sizes: tuple[int, ...]  # new classes of each update, less what was forgotten
    history: tuple[dict[str, Any], ...]
    method: Method[Any]
    origin: str | None = None  # the digest of the update that led here

    def digest(self) -> str:
        """SHA-256 of all that was learned, but for dates and durations."""
        arrays, words = standing_state(self.method)
        told = {
            "settings": self.settings.model_dump(mode="json"),
            "classes": self.classes,
            "task_sizes": self.task_sizes,
            "memory": words,
        }
        return archive_digest(told, arrays)

    def find(self, name: Label) -> int:
        """The position of a class.

        Raises:
            InputError: There is none of this name.
        """
        if name in self.classes and not isinstance(name, bool):
            return self.classes.index(name)
        known = [str(one) for one in self.classes]
        shown = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
        raise InputError(f"there is no class {name!r}.{nearest(str(name), known)} Known: {shown}.")


def revive(
    settings: LearnerSettings,
    task_sizes: tuple[int, ...],
    arrays: Arrays,
    words: Any,
    source: str,
    *,
    coming: tuple[int, ...] = (),
) -> Method[Any]:
    """A method grown by past updates, with the weights and the memory that they left.

    Args:
        source: Where the arrays come from, for errors.
        coming: New classes of the update that is about to begin.

    Raises:
        InputError: The arrays do not fit the settings.
    """
    shape = settings.image_shape
    with torch.random.fork_rng(devices=[]):
        method = build_method(settings, shape, (*task_sizes, *coming))
        for task in empty_tasks(task_sizes, shape):
            method.grow(task)
    if not task_sizes:
        return method.eval()
    try:
        load_standing_state(method, arrays, words, source)
    except RuntimeError:  # what torch says of weights that do not fit
        raise InputError(
            f"{source} holds weights that do not fit its settings. Restore it from a copy."
        ) from None
    return method.eval()


def forget(knowledge: Knowledge, name: Label) -> Knowledge:
    """Knowledge without one class.

    Raises:
        InputError: There is none of this name, no other, or the method cannot cut it out.
    """
    label = knowledge.find(name)
    method_name = knowledge.settings.method.name
    if not knowledge.method.has_one_row_per_class:
        raise InputError(
            f"{method_name} does not hold each class in a row of its own, so that none can be cut "
            "out. Learn the other classes anew."
        )
    if len(knowledge.classes) == 1:
        raise InputError(f"{name!r} is the only class. Delete the store instead.")
    sizes = _without(knowledge.task_sizes, label)
    arrays, words = standing_state(knowledge.method)
    method = revive(knowledge.settings, knowledge.task_sizes, arrays, words, "the learner")
    for part in method.modules():
        if isinstance(part, LinearClassifier):
            part.cut(label)
    if method.memory is not None:
        method.memory.unsee_class(label)
    history = tuple(_unnamed(one, name) for one in knowledge.history)
    return replace(
        knowledge,
        classes=tuple(one for one in knowledge.classes if one != name),
        task_sizes=sizes,
        history=(*history, {"when": today(), "forgotten_classes": 1}),
        method=method,
        origin=None,
    )


def _without(task_sizes: tuple[int, ...], label: int) -> tuple[int, ...]:
    sizes, first = list(task_sizes), 0
    for index, size in enumerate(task_sizes):
        if first <= label < first + size:
            sizes[index] -= 1
        first += size
    return tuple(sizes)


def _unnamed(update: Mapping[str, Any], name: Label) -> dict[str, Any]:
    """An entry of the history that does not tell of a class."""
    return {
        key: [one for one in value if one != name] if isinstance(value, list) else value
        for key, value in update.items()
    }


def today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())
