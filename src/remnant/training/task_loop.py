"""One task with exact resume: what a run and a learner share.

A method is built, grown once for every earlier task, and given the weights and the memory after
them. Then it learns a task: begin, phases, end. The random numbers are seeded again at each of
these steps, so that a run that is resumed draws the same ones as a run that never stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from remnant.images import ArrayImages, ImageSet, Task
from remnant.memory import Keeps, KeptTensors
from remnant.methods import Method
from remnant.phases import Phase
from remnant.randomness import derive_seed
from remnant.training.checkpoints import Checkpoints, Point, phase_end
from remnant.training.network_state import Arrays, load_method_state, method_state
from remnant.training.trainer import Trainer, Watcher

Shape = tuple[int, int, int]  # height, width and channels of an image
_TRIED = 8  # images of a task, to see whether the memory can hold one
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
        InputError: The memory is impossible; the message begins with `source`.
    """
    load_method_state(method, arrays)
    for kept in _stores(method):
        prefix = f"{kept.name}/"
        stored = {
            name.removeprefix(prefix): array
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        is_memory = kept is method.memory
        metadata = of_memory if is_memory else json.loads(stored.pop(_METADATA).tobytes())
        kept.load_arrays(stored, metadata, source)


def _stores(method: Method[Any]) -> list[Keeps]:
    """What a method keeps that is not among its parameters and buffers."""
    return [kept for kept in method.kept() if not isinstance(kept, KeptTensors)]


# -------------------------------------------------------------------------------------- one task


class TaskLoop:
    """Learns tasks, one at a time, from their beginning or from a checkpoint.

    Args:
        save: Writes a checkpoint of the current task.
    """

    def __init__(
        self,
        method: Method[Any],
        trainer: Trainer,
        checkpoints: Checkpoints,
        seed: int,
        save: Callable[[Point, Arrays], None],
    ) -> None:
        self._method = method
        self._trainer = trainer
        self._checkpoints = checkpoints
        self._seed = seed
        self._save = save

    def learn(self, task: Task, point: Point, watchers: tuple[Watcher, ...] = ()) -> None:
        """Begin the task, run its phases and end it; phases that end before `point` are skipped."""
        method, reader = self._method.eval(), self._trainer.reader
        self._seed_again("begin", task)
        method.begin_task(task, reader)
        method.eval()  # including what has grown
        if method.memory is not None:
            some = task.train.images.read(torch.arange(min(_TRIED, len(task.train))))
            method.memory.require_room_for(some, task.num_seen_classes)
        self._trainer.processes.prepare(method)
        for index, phase in enumerate(self._phases(task)):
            end = phase_end(task.index, index)
            if point >= end:
                arrays, _ = self._checkpoints.load(end)
                load_method_state(method, arrays)
                continue
            self._fit(task, phase, Point(task.index, index), point, watchers)
            self._save(end, method_state(method))
        self._seed_again("end", task)
        method.eval().end_task(task, reader)
        for kept in method.kept():
            self._trainer.processes.check_same(kept.digest(), kept.name)

    def _phases(self, task: Task) -> Iterator[Phase]:
        """The method's phases, with fixed random numbers for the code between them."""
        phases = self._method.phases(task, self._trainer.reader)
        for index in range(1_000_000):
            self._seed_again("between", task, index)
            phase = next(phases, None)
            if phase is None:
                return
            yield phase

    def _fit(
        self, task: Task, phase: Phase, here: Point, point: Point, watchers: tuple[Watcher, ...]
    ) -> None:
        resume_from = None
        if point > here:
            arrays, _ = self._checkpoints.load(point)
            resume_from = (int(point.step), arrays)

        def save(step: int, arrays: Arrays) -> None:
            self._save(Point(here.task, here.phase, step), arrays)

        self._trainer.fit(
            self._method, task, phase, watchers=watchers, resume_from=resume_from, save=save
        )

    def _seed_again(self, purpose: str, task: Task, index: int = 0) -> None:
        torch.manual_seed(derive_seed(self._seed, purpose, task.index, index))
