"""What a store says of its network, compared with its arrays before anything is allocated.

The file may come from a stranger, with a right checksum: settings that ask for a network of a
hundred gigabytes must cost nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from pydantic import ConfigDict, ValidationError
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from remnant.archives import Arrays
from remnant.errors import InputError
from remnant.learner.inputs import Label
from remnant.learner.learner_state import LearnerConfig
from remnant.methods import Method, build_method
from remnant.settings import Settings
from remnant.training.network_state import explain_misfit
from remnant.training.task_loop import grow_through

_MAX_TASKS = 100_000
# Bytes that follow from the settings and are in no file, such as codes of places: a small file must
# not ask for many. Chosen: the largest of an ordinary network are about 10 MB.
_MAX_BESIDE = 1 << 28
_SPARE_PARAMETERS = 1000  # made and thrown away while a network grows
# What building a network of impossible settings can end in.
_BUILDING_ERRORS = (
    ArithmeticError,
    AssertionError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)


def check_network(
    config: LearnerConfig, task_sizes: tuple[int, ...], arrays: Arrays, source: str
) -> None:
    """Compare names, types and shapes of the arrays with the network of the settings.

    Raises:
        InputError: They do not fit.
    """
    if len(task_sizes) > _MAX_TASKS:
        raise InputError(f"{source} names {len(task_sizes):,} updates. Restore it from a copy.")
    method = _outline(config, task_sizes, len(arrays), source)
    problem = None if method is None else explain_misfit(method, arrays)
    if problem is not None:
        raise InputError(
            f"{source} holds weights that do not fit its settings: {problem} Restore it from a "
            "copy."
        )
    if method is not None:
        check_beside(method, source, "Restore it from a copy.")


def check_beside(method: Method[Any], source: str, remedy: str) -> None:
    """Raises InputError where buffers that are in no file take too much memory."""
    saved = {id(tensor) for tensor in method.state_dict(keep_vars=True).values()}
    beside = sum(buffer.nbytes for buffer in method.buffers() if id(buffer) not in saved)
    if beside > _MAX_BESIDE:
        raise InputError(
            f"{source} must take at most {_MAX_BESIDE:,} bytes beside its weights; its settings "
            f"ask for {beside:,}. {remedy}"
        )


@contextmanager
def telling_full_memory(source: str) -> Iterator[None]:
    """Within this context, memory that cannot be had is told in a sentence.

    Raises:
        InputError: It ran out.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "allocate memory" in str(error):  # torch's words
            raise InputError(
                f"{source} must fit into memory; there is too little. Open it on a larger machine, "
                "or restore it from a copy."
            ) from None
        raise


def _outline(
    config: LearnerConfig, task_sizes: tuple[int, ...], num_arrays: int, source: str
) -> Method[Any] | None:
    """The network without its numbers; None for a method that cannot be built so."""
    # Growing makes the classifier anew, once per task.
    limit = _SPARE_PARAMETERS + 4 * (num_arrays + len(task_sizes))
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"), _at_most(limit):
            method = build_method(config, config.image_shape, task_sizes)
            grow_through(method, task_sizes, config.image_shape)
        return method
    except InputError as error:
        raise InputError(f"{source} cannot be used: {error} Restore it from a copy.") from None
    except _BUILDING_ERRORS as error:
        if "meta" in str(error):  # a method of a plug-in that wants numbers
            return None
        raise InputError(
            f"{source} cannot be used: no network has its settings ({error}). Restore it from a "
            "copy."
        ) from None


@contextmanager
def _at_most(limit: int) -> Iterator[None]:
    """Within this context, this thread makes no more parameters than so many."""
    made, mine = 0, threading.get_ident()

    def count(_: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal made
        made += parameter is not None and threading.get_ident() == mine
        if made > limit:
            raise ValueError("the network has more layers than the file has arrays.")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()


class _HistoryEntry(Settings):
    """What readers of a store need of an update; it may say more."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, allow_inf_nan=False)

    when: str
    forgotten_classes: int | None = None  # an entry with this needs nothing else
    classes: list[Label] | None = None
    known_classes: list[Label] | None = None
    images: int | None = None
    seconds: float | None = None
    memory_bytes: int | None = None
    accuracy: float | None = None
    measured_on: str | None = None
    measured_images: int | None = None
    class_accuracy: list[tuple[Label, float]] | None = None
    class_accuracy_before: list[tuple[Label, float]] | None = None


_OF_AN_UPDATE = ("classes", "known_classes", "seconds", "memory_bytes")
# All of them, or none, as in stores of earlier versions.
_MEASURED = ("measured_on", "measured_images", "class_accuracy", "class_accuracy_before")


def check_history(history: tuple[dict[str, Any], ...], source: str) -> None:
    """Raises InputError for an entry that no update writes."""
    for number, update in enumerate(history, start=1):
        try:
            read = _HistoryEntry.model_validate_json(json.dumps(update))
            is_whole = "accuracy" in update and all(
                getattr(read, name) is not None for name in _OF_AN_UPDATE
            )
            is_whole &= len({getattr(read, name) is None for name in _MEASURED}) == 1
        except ValidationError:
            read, is_whole = None, False
        if read is None or not (is_whole or read.forgotten_classes is not None):
            raise InputError(
                f"{source} has an invalid entry for update {number}. Restore it from a copy."
            )


def check_classes(classes: tuple[Any, ...], task_sizes: tuple[int, ...], source: str) -> None:
    """Raises InputError unless every class has a name of its own and an output."""
    if len(classes) != sum(task_sizes) or not task_sizes:
        raise InputError(
            f"{source} names {len(classes)} classes for {sum(task_sizes)} outputs. Restore it from "
            "a copy."
        )
    if len({str(name) for name in classes}) < len(classes):
        raise InputError(
            f"{source} names a class twice; names must differ. Restore it from a copy."
        )
