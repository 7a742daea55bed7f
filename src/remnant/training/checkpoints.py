"""Checkpoints of a run, in files that are written atomically.

A run is deterministic, so a checkpoint need not hold what can be computed again. Three kinds of
point are enough: the start of a task (network, memory), the end of a phase (network) and a step
within a phase (network, optimisers). To resume at a step, the run loads the start of the task,
skips the finished phases by loading their ends, and continues the phase at the step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from remnant.archives import read_archive, write_archive
from remnant.errors import InputError
from remnant.files import sync_folder
from remnant.memory import Memory
from remnant.memory.memory_file import PAYLOAD

VERSION = 1
MEMORY_PAYLOAD = f"{Memory.name}/{PAYLOAD}"  # where `standing_state` has it
_PATTERN = re.compile(r"task-(\d+)(?:-phase-(\d+)(?:-step-(\d+)|-(end)))?\.safetensors")


@dataclass(frozen=True, order=True)
class Point:
    """A point in a run at which it can be resumed; points sort in the order of the run."""

    task: int
    phase: int = -1  # -1: the start of the task
    step: float = 0  # steps done in the phase; infinite: all

    @property
    def is_start(self) -> bool:
        return self.phase < 0

    @property
    def is_end(self) -> bool:
        return self.step == float("inf")

    @property
    def file_name(self) -> str:
        name = f"task-{self.task:03d}"
        if not self.is_start:
            name += f"-phase-{self.phase}"
            name += "-end" if self.is_end else f"-step-{int(self.step):08d}"
        return name + ".safetensors"


def phase_end(task: int, phase: int) -> Point:
    return Point(task, phase, float("inf"))


def is_checkpoint(name: str) -> bool:
    """Whether a checkpoint file has this name."""
    return _parse(name) is not None


def _parse(name: str) -> Point | None:
    match = _PATTERN.fullmatch(name)
    if match is None:
        return None
    task, phase, step, end = match.groups()
    if phase is None:
        return Point(int(task))
    return phase_end(int(task), int(phase)) if end else Point(int(task), int(phase), int(step))


class Checkpoints:
    """The checkpoint folder of a run.

    Keeps the last two points and those they depend on. Both may stand on one file, the start of
    their task, so the ends of the task before are kept too, with its start.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def points(self) -> list[Point]:
        """All points on disk, oldest first."""
        if not self.folder.is_dir():
            return []
        found = (_parse(path.name) for path in self.folder.iterdir())
        return sorted(point for point in found if point is not None)

    def save(self, point: Point, arrays: Mapping[str, np.ndarray], metadata: Any) -> None:
        write_archive(self.folder / point.file_name, "checkpoint", VERSION, arrays, metadata)
        self._prune()

    def load(self, point: Point) -> tuple[dict[str, np.ndarray], Any]:
        return read_archive(self.folder / point.file_name, "checkpoint", VERSION, MEMORY_PAYLOAD)

    def path_to(self, point: Point) -> list[Point]:
        """The points to load, in order, to resume at `point`."""
        path = [Point(point.task)]
        if not point.is_start:
            path += [phase_end(point.task, phase) for phase in range(point.phase)]
            path.append(point)
        return path

    def newest_readable(self) -> Point | None:
        """The newest point that can be loaded with all points that it depends on.

        Raises:
            InputError: There are checkpoints, but none of them can be read.
        """
        points = self.points()
        problems = []
        for point in reversed(points):
            try:
                for needed in self.path_to(point):
                    # The start of the first task has no file.
                    if needed != Point(0):
                        self.load(needed)
                return point
            except InputError as error:
                problems.append(str(error))
        if problems:
            raise InputError(
                f"no checkpoint in {self.folder} can be read: {problems[0]} To start over, run "
                "the folder's config.json into a new folder."
            )
        return None

    def _prune(self) -> None:
        points = self.points()
        needed = {step for point in points[-2:] for step in self.path_to(point)}
        before = points[-1].task - 1
        needed |= {one for one in points if one.task == before and (one.is_start or one.is_end)}
        outdated = [point for point in points if point not in needed]
        for point in outdated:
            (self.folder / point.file_name).unlink(missing_ok=True)
        if outdated:
            sync_folder(self.folder)
