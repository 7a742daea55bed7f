"""One task with exact resume: what a run and a learner share.

A method is built, grown once for every task behind it and given the weights and the memory that
they left. Then it learns a task: begin, phases, end. Random numbers start anew at every seam, so
that whoever goes on from a checkpoint draws what one who never stopped draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from remnant.images import ArrayImages, ImageSet, Shape, Task
from remnant.memory import Memory
from remnant.methods import Method
from remnant.phases import Phase
from remnant.randomness import derive_seed
from remnant.training.checkpoints import Checkpoints, Point, phase_end
from remnant.training.network_state import Arrays, load_method_state, method_state
from remnant.training.trainer import Trainer, Watcher

_TRIED = 8  # images of a task, to see whether the memory can hold one
_MEMORY = "memory/"  # begins the names of a memory's arrays among those of a standing


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
    """Network and memory as arrays, and what the memory says in words (None without one)."""
    arrays, words = method_state(method), None
    if method.memory is not None:
        stored, words = method.memory.state_arrays()
        arrays |= {_MEMORY + name: array for name, array in stored.items()}
    return arrays, words


def load_standing_state(method: Method[Any], arrays: Arrays, words: Any, source: str) -> None:
    """The inverse of `standing_state`, for a method that was grown by as many tasks.

    Raises:
        InputError: The memory is impossible; the message begins with `source`.
    """
    load_method_state(method, arrays)
    if method.memory is not None:
        stored = {
            name.removeprefix(_MEMORY): array
            for name, array in arrays.items()
            if name.startswith(_MEMORY)
        }
        method.memory = Memory.from_arrays(stored, words, source)


# -------------------------------------------------------------------------------------- one task


class TaskLoop:
    """Carries out tasks, one at a time, from wherever the checkpoints left them.

    Args:
        save: Writes a point of the task under way; its owner adds what he needs to know there.
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
        """Begin the task, run its phases and end it, passing those that `point` has behind it."""
        method, reader = self._method.eval(), self._trainer.reader
        self._start_chance("begin", task)
        method.begin_task(task, reader)
        method.eval()  # what has grown, too
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
        self._start_chance("end", task)
        method.eval().end_task(task, reader)
        if method.memory is not None:
            self._trainer.processes.check_same(method.memory.digest(), "memory")

    def _phases(self, task: Task) -> Iterator[Phase]:
        """The method's phases, with the random numbers between two of them fixed."""
        phases = self._method.phases(task, self._trainer.reader)
        for index in range(1_000_000):
            self._start_chance("between", task, index)
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

    def _start_chance(self, purpose: str, task: Task, index: int = 0) -> None:
        torch.manual_seed(derive_seed(self._seed, purpose, task.index, index))
