"""The parameters of a learner, the config that its first update fixes, and what it has learned."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import torch
from pydantic import Field, field_validator

from remnant.archives import archive_digest
from remnant.config import LearningConfig
from remnant.errors import InputError, nearest
from remnant.learner.held_exemplars import still_stored
from remnant.learner.inputs import Channels, Label
from remnant.learner.score_calibration import Calibration
from remnant.methods import METHODS, Method, build_method
from remnant.settings import Settings
from remnant.training.network_state import Arrays
from remnant.training.task_loop import (
    copy_standing_state,
    grow_through,
    load_standing_state,
    standing_state,
)


class LearnerParameters(Settings):
    """The parameters of `Learner`, checked; None means that the value is chosen."""

    budget: str = "1MiB/class"
    method: str | None = None
    encoder: str | None = None
    image_size: int | None = Field(default=None, ge=8, le=2048)
    codec: str | dict[str, Any] | None = None
    epochs: int | None = Field(default=None, ge=1)
    batch_size: int | None = Field(default=None, ge=1)
    width: int | None = None
    learning_rate: float | None = Field(default=None, gt=0)
    augment: str | None = None
    options: dict[str, Any] | None = None
    seed: int = Field(default=0, ge=0)
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    threads: int | None = Field(default=None, ge=1)
    minutes: float | None = Field(default=None, gt=0)
    guard: float | None = Field(default=None, ge=0, le=100)
    strict: bool = False
    quiet: bool = False

    @field_validator("budget", mode="before")
    @classmethod
    def _spell_out_bytes(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int) else value

    @field_validator("width")
    @classmethod
    def _check_width(cls, value: int | None) -> int | None:
        if value is not None and (value < 16 or value % 16):
            raise InputError(f"width must be a multiple of 16, at least 16; got {value}.")
        return value

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Parameters as a user gives them: also numbers of numpy, and a method as its class.

        Raises:
            InputError: One of them cannot be used.
        """

        def to_json(value: Any) -> Any:
            if isinstance(value, Mapping):
                return dict(value)
            if hasattr(value, "item"):
                return value.item()
            raise InputError(f"a parameter must be text, a number or a mapping; got {value!r:.80}.")

        given = dict(values)
        if isinstance(given.get("method"), type):
            given["method"] = _register(given["method"])
        return cls.parse(json.loads(json.dumps(given, default=to_json)))


def _register(method: type[Any]) -> str:
    """The name of a method class, which is added to the table of methods if it is new."""
    if not issubclass(method, Method):
        raise InputError(
            f"method must be a name or a subclass of remnant.methods.Method; got {method!r}."
        )
    name = method.Config.model_fields["name"].default
    known = METHODS.get(name)
    same_place = (method.__module__, method.__qualname__)
    if known is not None and (known.__module__, known.__qualname__) == same_place:
        del METHODS[name]  # defined again, as in a notebook
    METHODS.register(method)
    return name


class LearnerConfig(LearningConfig):
    """What the first update fixes."""

    image_size: int = Field(ge=8, le=2048)
    mean: Channels  # of the first update's images, per channel, in [0, 1]
    std: Channels

    @field_validator("mean")
    @classmethod
    def _check_mean(cls, mean: Channels) -> Channels:
        if not all(abs(value) <= 10 for value in mean):
            raise InputError(f"the mean of images must be between -10 and 10; got {mean}.")
        return mean

    @field_validator("std")
    @classmethod
    def _check_std(cls, std: Channels) -> Channels:
        if not all(1e-3 <= value <= 1e3 for value in std):
            raise InputError(f"the deviation of images must be from 0.001 to 1,000; got {std}.")
        return std

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return self.image_size, self.image_size, 3


@dataclass(frozen=True)
class LearnerState:
    """All that a store holds. The method is ready for use: grown, with weights and memory."""

    parameters: LearnerParameters
    config: LearnerConfig
    classes: tuple[Label, ...]
    task_sizes: tuple[int, ...]  # new classes of each update, without those forgotten since
    history: tuple[dict[str, Any], ...]
    method: Method[Any]
    origin: str | None = None  # the digest of the update that led here
    calibration: Calibration | None = None  # of a method that trained, by images held back
    untrained: tuple[str, ...] = ()  # digests of exemplars that were always held back

    @property
    def num_exemplars(self) -> int:
        return 0 if self.method.memory is None else sum(self.method.memory.counts)

    @property
    def temperature(self) -> float:
        """The divisor of the method's scores before a softmax."""
        return 1.0 if self.calibration is None else self.calibration.temperature

    def digest(self) -> str:
        """SHA-256 of all that was learned, without dates and durations."""
        arrays, memory = standing_state(self.method)
        sizes = self.task_sizes
        if self.method.forgets_exactly:  # an update without a new class leaves no trace of its own
            sizes = tuple(filter(None, sizes))
        header = {
            "settings": self.config.model_dump(mode="json"),
            "classes": self.classes,
            "task_sizes": sizes,
            "memory": memory,
        }
        if self.untrained:  # decides what the next update is trained on
            header["untrained"] = self.untrained
        return archive_digest(header, arrays)

    def find(self, name: Label) -> int:
        """The position of a class.

        Raises:
            InputError: There is no such class.
        """
        if name in self.classes and not isinstance(name, bool):
            return self.classes.index(name)
        known = [str(label) for label in self.classes]
        shown = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
        raise InputError(f"there is no class {name!r}.{nearest(str(name), known)} Known: {shown}.")

    def copy_method(self) -> Method[Any]:
        """The method built again, on the CPU, without what its last update needed for training."""
        return restore(self.config, self.task_sizes, self.method, "the learner")


def restore(
    config: LearnerConfig,
    task_sizes: tuple[int, ...],
    learned: tuple[Arrays, Any] | Method[Any] | None,
    source: str,
    *,
    coming: tuple[int, ...] = (),
) -> Method[Any]:
    """A method with the weights and the memory of past updates.

    Args:
        learned: Arrays and the header of the memory, as `standing_state` gives them, or the method
            that they are of; None: nothing was learned.
        source: Where they come from, for errors.
        coming: Numbers of new classes of the update that is about to begin.

    Raises:
        InputError: The arrays do not fit the config.
    """
    shape = config.image_shape
    with torch.random.fork_rng(devices=[]):
        method = build_method(config, shape, (*task_sizes, *coming))
        grow_through(method, task_sizes, shape)
    if not task_sizes:
        return method.eval()
    if isinstance(learned, Method):
        copy_standing_state(learned, method)
    elif learned is not None:
        load_standing_state(method, *learned, source)
    return method.eval()


# --------------------------------------------------------------------------------------- forgetting


def check_forgettable(state: LearnerState, name: Label) -> int:
    """The position of a class that can be removed.

    Raises:
        InputError: There is no such class, it is the only one, or the method cannot remove one.
    """
    label = state.find(name)
    if not state.method.has_one_row_per_class:
        raise InputError(
            f"{state.config.method.name} cannot remove a class: its classifier does not have one "
            "row per class. Teach a new learner the other classes."
        )
    if len(state.classes) == 1:
        raise InputError(f"{name!r} is the only class. Delete the store instead.")
    return label


def forget_class(state: LearnerState, name: Label) -> tuple[LearnerState, str]:
    """The state without one class, and a message that says what cannot be undone.

    Raises:
        InputError: As `check_forgettable`.
    """
    label, method = check_forgettable(state, name), state.copy_method()
    method.forget_class(label)
    if method.memory is not None:
        method.memory.unsee_class(label)
    history = tuple(_without_name(update, name) for update in state.history)
    after = replace(
        state,
        classes=tuple(other for other in state.classes if other != name),
        task_sizes=_without_label(state.task_sizes, label, drops_empty=method.forgets_exactly),
        history=(*history, {"when": today(), "forgotten_classes": 1}),
        method=method,
        origin=None,
        untrained=still_stored(method.memory, state.untrained),
    )
    rest = (
        "What is left is the classifier that never saw it"
        if method.forgets_exactly
        else "The other weights were trained on its images too, which cannot be undone"
    )
    message = (
        f"{name!r} is forgotten: its {state.num_exemplars - after.num_exemplars:,} exemplars, its "
        f"row of the classifier and its name are removed. {rest}; stores, exports, pages and "
        "cards written earlier still contain it."
    )
    return after, message


def _without_label(
    task_sizes: tuple[int, ...], label: int, *, drops_empty: bool
) -> tuple[int, ...]:
    """Updates without a class go too where none of what they brought is left in the weights."""
    sizes, first = list(task_sizes), 0
    for index, size in enumerate(task_sizes):
        if first <= label < first + size:
            sizes[index] -= 1
            break
        first += size
    return tuple(filter(None, sizes)) if drops_empty else tuple(sizes)


def _without_name(update: Mapping[str, Any], name: Label) -> dict[str, Any]:
    """An entry of the history that does not mention a class: not alone, nor with its accuracy."""

    def is_of_class(item: Any) -> bool:
        return item == name or (isinstance(item, list | tuple) and item[:1] in ([name], (name,)))

    return {
        key: [item for item in value if not is_of_class(item)] if isinstance(value, list) else value
        for key, value in update.items()
    }


def today() -> str:
    """The date in UTC, as the history has it."""
    return time.strftime("%Y-%m-%d", time.gmtime())
