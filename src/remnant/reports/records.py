"""Reads a run folder: what a run wrote, checked, without torch.

A folder of an unfinished run is read as far as it goes; `RunFolder.result` then covers the tasks
that were completed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from remnant.errors import InputError
from remnant.reports.events import Json, read_events, result_so_far, setting


class Record(BaseModel):
    """Parent of what is read back: unknown names are left to newer versions."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class MemoryRecord(Record):
    """What the memory held after the last task."""

    budget_bytes: int | None = None  # None: no limit was set
    used_bytes: int = 0
    exemplars_per_class: list[int] = []
    ledger: dict[str, int | dict[str, int]] = {}  # nested: the same however many exemplars
    digest: str | None = None
    working_bytes: int = 0  # of completed exemplars, for the length of a task; not in the budget


class Result(Record):
    """The numbers of a run; accuracies are percent, rows of the matrix are tasks."""

    recipe: str = ""
    method: str = ""
    dataset: str = ""
    seed: int | None = None
    order: Any = None  # a name, or the classes themselves
    task_sizes: list[int] = []
    class_names: list[str] = []
    accuracy_matrix: list[list[float]] = []
    accuracies: list[float] = []
    top5: list[float] = Field([], validation_alias="top5_accuracies")
    average_accuracy: float | None = None
    last_accuracy: float | None = None
    forgetting: float | None = None
    forgetting_per_task: list[float] = []
    backward_transfer: float | None = None
    top5_average: float | None = None
    parameters: int | None = None
    flops_per_image: dict[str, float | None] | None = None
    density: dict[str, float | None] | None = None
    reconstruction: list[dict[str, dict[str, float]]] = []  # per task: branch -> score -> mean
    memory: MemoryRecord | None = None
    train_seconds: float | None = None
    train_images_per_second: float | None = None
    seconds_per_task: list[float] = []
    parameters_per_task: list[int] = []  # after each task
    predict_flops_per_task: list[int] = []  # per image
    finished: bool = False


@dataclass(frozen=True)
class RunFolder:
    """One run, as its folder tells it."""

    path: Path
    config: Json
    environment: Json
    result: Result

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @cached_property
    def events(self) -> list[Json]:
        return read_events(self.path / "events.jsonl")

    @property
    def num_tasks(self) -> int:
        """Tasks of the whole stream, as far as the folder knows."""
        planned = setting(self.config, "stream.num_tasks")
        return max(len(self.result.task_sizes), planned if isinstance(planned, int) else 0)

    @property
    def counted_ledger(self) -> dict[str, int]:
        """Entries of the byte ledger that count against the budget, the largest first."""
        memory = self.result.memory
        if memory is None or memory.used_bytes == 0:
            return {}
        pixels_only = setting(self.config, "memory.count_overhead") is False
        counted = {
            name: size
            for name, size in memory.ledger.items()
            if not isinstance(size, dict) and (name == "payload" or not pixels_only)
        }
        return dict(sorted(counted.items(), key=lambda entry: -entry[1]))

    @property
    def has_grown(self) -> bool:
        """The network, and not merely its classifier, is larger than after the first task."""
        sizes = self.result.parameters_per_task
        return len(sizes) > 1 and max(sizes) > 1.1 * sizes[0]

    @property
    def num_done_tasks(self) -> int:
        return len(self.result.accuracies)

    @property
    def classes_seen(self) -> list[int]:
        """How many classes were known after each completed task."""
        return np.cumsum(self.result.task_sizes[: self.num_done_tasks]).tolist()

    def task_names(self, index: int) -> list[str]:
        """Names of the classes that a task brought."""
        start = sum(self.result.task_sizes[:index])
        return self.result.class_names[start : sum(self.result.task_sizes[: index + 1])]

    def predictions(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Predicted classes and labels of the test images after the last task, or None."""
        paths = sorted((self.path / "predictions").glob("task-*.safetensors"))
        if not paths:
            return None
        try:
            arrays = safetensors.numpy.load_file(paths[-1])
            return arrays["top5"][:, 0].astype(np.int64), arrays["labels"].astype(np.int64)
        except (safetensors.SafetensorError, KeyError, IndexError):
            raise InputError(
                f"{paths[-1]} must hold the arrays top5 and labels; it is damaged. Restore it "
                "from a copy, or delete it to report without a confusion matrix."
            ) from None


def read_run(folder: Path) -> RunFolder:
    """Read one run folder, finished or not.

    Raises:
        InputError: It is no run folder, or one of its files is damaged.
    """
    if not (folder / "config.json").is_file():
        raise InputError(
            f"{folder} must be a run folder, which holds a config.json; it does not. "
            "Name a folder that `remnant run` wrote."
        )
    config = read_object(folder / "config.json")
    environment_path, result_path = folder / "environment.json", folder / "result.json"
    environment = read_object(environment_path) if environment_path.is_file() else {}
    if result_path.is_file():
        values = read_object(result_path)
    else:
        values = result_so_far(config, read_events(folder / "events.jsonl"))
    try:
        result = Result.model_validate(values)
    except ValidationError as error:
        wrong = error.errors()[0]
        where = ".".join(str(part) for part in wrong["loc"])
        raise InputError(
            f"{result_path} must hold the result of a run; its entry {where} is wrong "
            f"({wrong['msg']}). Restore it from a copy."
        ) from None
    return RunFolder(folder, config, environment, result)


def find_runs(folders: Iterable[Path]) -> list[Path]:
    """The run folders among and inside `folders`, each once, in order.

    Raises:
        InputError: One of them holds no run.
    """
    found: dict[Path, Path] = {}
    for folder in folders:
        runs = list(_runs_inside(folder)) if folder.is_dir() else []
        if not runs:
            raise InputError(
                f"{folder} must be a run folder or hold run folders; it does neither. "
                "Name a folder that `remnant run` wrote."
            )
        for run in runs:
            found.setdefault(run.resolve(), run)
    return list(found.values())


def read_object(path: Path) -> Json:
    """The JSON object in a file."""
    try:
        value = json.loads(path.read_bytes())
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InputError(
            f"{path} must hold one JSON object; it is damaged. Restore it from a copy."
        )
    return value


def _runs_inside(folder: Path) -> Iterator[Path]:
    if (folder / "config.json").is_file():
        yield folder
        return
    for child in sorted(folder.iterdir()):
        if child.is_dir() and not child.name.startswith("."):
            yield from _runs_inside(child)
