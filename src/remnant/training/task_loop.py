"""The loop over tasks, with exact resume: what a run and a learner share.

A method is built, grown once for every task behind it and given the weights and the memory that
they left. Then it learns task after task: begin, phases, end.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from remnant.errors import InputError
from remnant.images import ArrayImages, ImageSet, Shape, Task
from remnant.memory import Keeps, KeptTensors
from remnant.methods import Method
from remnant.phases import Phase, Watcher
from remnant.randomness import derive_seed
from remnant.training.arithmetic import FlopCount
from remnant.training.checkpoints import Checkpoints, Point, phase_end
from remnant.training.network_state import Arrays, load_method_state, method_state
from remnant.training.trainer import Trainer

_TRIED = 32  # images of a task, to see whether the memory can hold one
_METADATA = "metadata"  # JSON as an array, of what a method keeps beside its memory


def empty_tasks(sizes: Sequence[int], image_shape: Shape) -> list[Task]:
    """Tasks as a method grows by them, without images."""
    nothing = ImageSet(
        ArrayImages(torch.empty(0, *image_shape, dtype=torch.uint8)),
        torch.empty(0, dtype=torch.int64),
        torch.empty(0, dtype=torch.int64),
    )
    return [
        Task(index, len(sizes), sum(sizes[:index]), tuple("?" * size), nothing)
        for index, size in enumerate(sizes)
    ]


def grow_through(method: Method[Any], sizes: Sequence[int], image_shape: Shape) -> None:
    """Let a method grow as it did in past tasks.

    One that forgets exactly does not know in how many tasks its classes came: it grows once, since
    every growth copies all that it has.
    """
    for task in empty_tasks([sum(sizes)] if method.forgets_exactly else sizes, image_shape):
        method.grow(task)


# ------------------------------------------------------------------------------ between two tasks


def standing_state(method: Method[Any]) -> tuple[Arrays, Any]:
    """Everything that a method carries to the next task as arrays, and the memory's metadata."""
    arrays, of_memory = method_state(method), None
    for kept in _stores(method):
        stored, metadata = kept.state_arrays()
        if kept is method.memory:
            of_memory = metadata
        else:
            stored[_METADATA] = np.frombuffer(json.dumps(metadata).encode(), dtype=np.uint8)
        arrays |= {f"{kept.name}/{name}": array for name, array in stored.items()}
    return arrays, of_memory


def load_standing_state(method: Method[Any], arrays: Arrays, of_memory: Any, source: str) -> None:
    """The inverse of `standing_state`, for a method that was grown by as many tasks.

    Raises:
        InputError: The weights do not fit, or the memory is impossible; the message begins with
            `source`.
    """
    load_method_state(method, arrays, source)
    for kept in _stores(method):
        prefix = f"{kept.name}/"
        stored = {
            name.removeprefix(prefix): array
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        if kept is method.memory:
            kept.load_arrays(stored, of_memory, source)
            continue
        if _METADATA not in stored:
            raise InputError(
                f"{source} does not hold the {kept.name} of {method.config.name}. It was written "
                "by another version, or is damaged; start the run again with another --out."
            )
        kept.load_arrays(stored, _read_metadata(stored.pop(_METADATA), source), source)


def copy_standing_state(method: Method[Any], to: Method[Any]) -> None:
    """What loading the `standing_state` of a method does, but that both share the exemplars."""
    source = "the learner"
    load_method_state(to, method_state(method), source)
    learned = {kept.name: kept for kept in _stores(method)}
    for kept in _stores(to):
        if to.memory is not None and kept is to.memory:
            assert method.memory is not None, "methods of the same settings have a memory, or none"
            to.memory.share(method.memory)
        else:
            kept.load_arrays(*learned[kept.name].state_arrays(), source)


def _read_metadata(text: np.ndarray, source: str) -> Any:
    try:
        return json.loads(text.tobytes())
    except (ValueError, RecursionError):
        raise InputError(
            f"{source} holds metadata that are no JSON. Restore it from a copy."
        ) from None


def _stores(method: Method[Any]) -> list[Keeps]:
    """What a method keeps that is not among its parameters and buffers."""
    return [kept for kept in method.kept() if not isinstance(kept, KeptTensors)]


# -------------------------------------------------------------------------------------- the loop


class TaskLoop:
    """The loop of the whole program: task after task, from wherever the checkpoints left it.

    Args:
        save: Writes a point of the task under way, with whatever else its owner needs there.
        count: Gets the FLOPs between training steps: completing, herding, taking features.
    """

    def __init__(
        self,
        method: Method[Any],
        trainer: Trainer,
        checkpoints: Checkpoints,
        seed: int,
        save: Callable[[Point, Arrays], None],
        count: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._method = method
        self._trainer = trainer
        self._checkpoints = checkpoints
        self._seed = seed
        self._save = save
        self._count = count

    def learn(
        self,
        tasks: Iterable[Task],
        point: Point,
        watchers: tuple[Watcher, ...] = (),
        after_task: Callable[[Task], None] = lambda _: None,
    ) -> None:
        """Learn the tasks in turn, the first of them from `point` on."""
        method, reader = self._method, self._trainer.reader
        for task in tasks:
            self._prepare("begin", task)
            with self._counting(is_new=point <= Point(task.index)):
                method.begin_task(task, reader)  # grow, take a snapshot, complete exemplars
            self._check_room(task)
            for here, phase in self._phases(task, point):  # what to optimise, and on which data
                self._fit(task, phase, here, point, watchers)  # the only backward pass
            self._prepare("end", task)
            with self._counting():
                method.end_task(task, reader)  # choose exemplars
            self._check_agreement()
            after_task(task)  # evaluate, write the result, save a checkpoint

    def _phases(self, task: Task, point: Point) -> Iterator[tuple[Point, Phase]]:
        """The phases that are left and where each begins; finished ones are loaded from disk."""
        phases = self._method.shown_phases(task, self._trainer.reader)
        for index in itertools.count():
            self._set_seed("between", task, index)
            here, end = Point(task.index, index), phase_end(task.index, index)
            with self._counting(is_new=point <= here):
                phase = next(phases, None)
            if phase is None:
                return
            if point < end:
                yield here, phase
                self._save(end, method_state(self._method))
            else:
                load_method_state(self._method, self._checkpoints.load(end)[0])

    @contextmanager
    def _counting(self, is_new: bool = True) -> Iterator[None]:
        """Count what the method does between steps, unless a resumed run merely repeats it."""
        with FlopCount() as counted:
            yield
        flops = self._trainer.processes.add_counts(counted.flops)
        if is_new:
            self._count(flops)

    def _fit(
        self, task: Task, phase: Phase, here: Point, point: Point, watchers: tuple[Watcher, ...]
    ) -> None:
        resume_from = None
        if point > here:
            resume_from = (int(point.step), self._checkpoints.load(point)[0])

        def save(step: int, arrays: Arrays) -> None:
            self._save(Point(here.task, here.phase, step), arrays)

        self._trainer.fit(
            self._method, task, phase, watchers=watchers, resume_from=resume_from, save=save
        )

    def _prepare(self, verb: str, task: Task) -> None:
        self._set_seed(verb, task)
        self._method.eval()

    def _check_room(self, task: Task) -> None:
        """Refuse a budget that holds nothing of this task before hours of training."""
        self._method.eval()  # what has grown, too
        if self._method.memory is not None:
            count = len(task.train)  # spread over all classes, which folders list one by one
            places = torch.linspace(0, count - 1, min(_TRIED, count)).round().long()
            some = task.train.images.read(places)
            num_seen = task.num_seen_classes
            side_bytes = self._method.side_bytes(num_seen)
            self._method.memory.require_room_for(some, num_seen, side_bytes)
        self._trainer.processes.prepare(self._method)

    def _check_agreement(self) -> None:
        """All processes must keep the same."""
        if self._trainer.processes.count > 1:
            for kept in self._method.kept():
                self._trainer.processes.check_same(kept.digest(), kept.name)

    def _set_seed(self, purpose: str, task: Task, index: int = 0) -> None:
        """Random numbers start again at every seam: a resumed run draws the same ones."""
        torch.manual_seed(derive_seed(self._seed, purpose, task.index, index))
