"""The files of a run folder: their names, their writer and their reader; without torch.

A folder of an unfinished run is read as far as it goes; `RunFolder.result` then covers the tasks
that were completed. To add a number to the results: a field of `RunResult`, filled where a run
knows it, and a line in the columns of `reports.result_tables`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from remnant import metrics
from remnant.archives import read_archive, write_archive
from remnant.errors import InputError, resume_command
from remnant.files import read_json_object, write_json
from remnant.runs.events import EVENTS, Json, read_events, result_so_far, setting

CONFIG = "config.json"
ENVIRONMENT = "environment.json"
RESULT = "result.json"
MEMORY = "memory.safetensors"
FEATURES = "features.safetensors"
PREDICTIONS = "predictions"
RECONSTRUCTIONS = "reconstructions"
CHECKPOINTS = "checkpoint"
FIGURES = "figures"
MEMORY_PICTURE = "memory.png"  # in the figures
REPORT = "report.html"
SWEEP = "sweep.json"  # of a folder of several runs: the config of each


# ------------------------------------------------------------------------------------- the result


class _Entry(BaseModel):
    """Unknown names are left to newer versions."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class MemoryResult(_Entry):
    """The replay memory after the last task."""

    budget_bytes: int | None = 0  # None: no limit was set
    used_bytes: int = 0
    exemplars_per_class: list[int] = []
    ledger: dict[str, int | dict[str, int]] = {}  # nested: the same however many exemplars
    digest: str | None = None
    working_bytes: int = 0  # of completed exemplars, for the length of a task; not in the budget


class Decision(_Entry):
    """What a method decided by itself, and the numbers that it went by."""

    name: str
    value: Any
    why: str
    curve: list[dict[str, float]] = []  # a row for each choice there was


class RunResult(_Entry):
    """What result.json holds; accuracies are percent, rows of the matrix are tasks."""

    recipe: str = ""
    method: str = ""
    dataset: str = ""
    seed: int | None = None
    order: Any = None  # a name, or the classes themselves
    task_sizes: list[int] = []
    class_names: list[str] = []
    accuracy_matrix: list[list[float]] = []
    accuracies: list[float] = []
    top5_accuracies: list[float] = []
    average_accuracy: float | None = None
    last_accuracy: float | None = None
    newest_accuracy: float | None = None
    forgetting: float | None = None
    forgetting_per_task: list[float] = []
    backward_transfer: float | None = None
    top5_average: float | None = None
    top5_last: float | None = None
    parameters: int | None = None
    kept_bytes: dict[str, int] = {}  # all that is carried from task to task, network and memory too
    flops_per_image: dict[str, float | None] | None = None
    density: dict[str, float | None] | None = None
    reconstruction: list[dict[str, dict[str, float]]] = []  # per task: branch -> score -> mean
    memory: MemoryResult | None = None  # None: the folder does not say
    decisions: list[Decision] = []  # of the method, in the order in which they were taken
    train_seconds: float | None = None
    train_images_per_second: float | None = None
    seconds_per_task: list[float] = []
    parameters_per_task: list[int] = []  # after each task
    predict_flops_per_task: list[int] = []  # per image
    # All training: steps, teachers, tuning, completing exemplars and choosing them; no evaluation.
    train_flops: int | None = None
    passes_over_new: list[float] = []  # of each task: how often its images were shown, on average
    finished: bool = False

    @property
    def newest(self) -> float | None:
        """`newest_accuracy`, on file since 0.2; in older folders the matrix tells."""
        if self.newest_accuracy is not None or not self.accuracy_matrix:
            return self.newest_accuracy
        return metrics.newest(self.accuracy_matrix)


def write_result(folder: Path, result: RunResult) -> None:
    write_json(folder / RESULT, result.model_dump(mode="json"))


def read_result(folder: Path) -> RunResult:
    """The result on file.

    Raises:
        InputError: There is none, or it is damaged.
    """
    return _parse_result(read_json_object(folder / RESULT, "the result of a run"), folder / RESULT)


def is_finished(folder: Path) -> bool:
    """Whether a run folder holds a final result."""
    try:
        return read_result(folder).finished
    except InputError:
        return False


def require_finished(folder: Path) -> None:
    """Refuse a folder without a final result.

    Raises:
        InputError: The folder is not a finished run.
    """
    if not folder.exists():
        raise InputError(f"{folder} does not exist. Check the path.")
    if not is_finished(folder):
        raise InputError(
            f"{folder} must be a finished run; it is not. Finish it: {resume_command(folder)}."
        )


def _parse_result(values: Any, path: Path) -> RunResult:
    try:
        return RunResult.model_validate(values)
    except ValidationError as error:
        wrong = error.errors()[0]
        where = ".".join(str(part) for part in wrong["loc"])
        raise InputError(
            f"{path} must hold the result of a run; its entry {where} is wrong ({wrong['msg']}). "
            "Restore it from a copy."
        ) from None


# -------------------------------------------------------------------------------- arrays of a task


def write_predictions(folder: Path, task: int, top5: np.ndarray, labels: np.ndarray) -> None:
    """The five best labels of every test image after a task; all accuracies come from these."""
    arrays = {"top5": top5.astype(np.int32), "labels": labels.astype(np.int32)}
    write_archive(_file_of(folder, PREDICTIONS, task), PREDICTIONS, 1, arrays, {"task": task})


def read_predictions(folder: Path, task: int) -> tuple[np.ndarray, np.ndarray]:
    """Top-5 labels and true labels after a task.

    Raises:
        InputError: The file is missing or damaged.
    """
    arrays, _ = read_archive(_file_of(folder, PREDICTIONS, task), PREDICTIONS, 1)
    return arrays["top5"], arrays["labels"]


def write_features(folder: Path, features: np.ndarray, labels: np.ndarray) -> None:
    """The features of the test images after the last task."""
    write_archive(folder / FEATURES, "features", 1, {"features": features, "labels": labels}, {})


def read_density(folder: Path) -> dict[str, float | None]:
    """How dense the features on file lie; None for what their number does not allow."""
    arrays, _ = read_archive(folder / FEATURES, "features", 1)
    features, labels = arrays["features"], arrays["labels"]
    found = metrics.density(features, labels) | {"pi_roth": metrics.pi_roth(features, labels)}
    return {
        name: value if value is not None and math.isfinite(value) else None
        for name, value in found.items()
    }


@dataclass(frozen=True)
class Reconstructions:
    """Test images redrawn after a task, and how well, by kind: "both", "main", "detail" ..."""

    pictures: Mapping[str, np.ndarray]  # uint8 [n, H, W, C]; "original" among them
    tasks: list[int]  # of each image
    scores: dict[str, dict[str, float]]


def write_reconstructions(folder: Path, task: int, drawn: Reconstructions) -> None:
    write_archive(
        _file_of(folder, RECONSTRUCTIONS, task),
        RECONSTRUCTIONS,
        1,
        drawn.pictures,
        {"tasks": drawn.tasks, "scores": drawn.scores},
    )


def read_reconstructions(folder: Path) -> list[Reconstructions]:
    """Those of each task; empty for a method that does not draw."""
    paths = sorted((folder / RECONSTRUCTIONS).glob("task-*.safetensors"))
    found = [read_archive(path, RECONSTRUCTIONS, 1) for path in paths]
    return [Reconstructions(arrays, words["tasks"], words["scores"]) for arrays, words in found]


def _file_of(folder: Path, kind: str, task: int) -> Path:
    return folder / kind / f"task-{task:03d}.safetensors"


# ----------------------------------------------------------------------------- reading a whole run


@dataclass(frozen=True)
class RunFolder:
    """One run, as its folder tells it."""

    path: Path
    config: Json
    environment: Json
    result: RunResult

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @cached_property
    def events(self) -> list[Json]:
        return read_events(self.path / EVENTS)

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
            if not isinstance(size, dict) and (name in ("payload", "side") or not pixels_only)
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
        """Predicted classes and labels of the test images after the last task, or None.

        Raises:
            InputError: The file is damaged.
        """
        paths = sorted((self.path / PREDICTIONS).glob("task-*.safetensors"))
        if not paths:
            return None
        top5, labels = read_predictions(self.path, int(paths[-1].stem.removeprefix("task-")))
        return top5[:, 0].astype(np.int64), labels.astype(np.int64)


def read_run(folder: Path) -> RunFolder:
    """Read one run folder, finished or not.

    Raises:
        InputError: It is no run folder, or one of its files is damaged.
    """
    if not (folder / CONFIG).is_file():
        raise InputError(
            f"{folder} must be a run folder, which holds a {CONFIG}; it does not. Name a folder "
            "that `remnant run` wrote."
        )
    config = read_json_object(folder / CONFIG, "the settings of a run")
    environment = {}
    if (folder / ENVIRONMENT).is_file():
        environment = read_json_object(folder / ENVIRONMENT, "the environment of a run")
    if (folder / RESULT).is_file():
        return RunFolder(folder, config, environment, read_result(folder))
    values = result_so_far(config, read_events(folder / EVENTS))
    return RunFolder(folder, config, environment, _parse_result(values, folder / EVENTS))


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


def _runs_inside(folder: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """Not through links that lead back to a folder above."""
    if (folder / CONFIG).is_file():
        yield folder
        return
    here = folder.resolve()
    if here in above:
        return
    for child in sorted(folder.iterdir()):
        if child.is_dir() and not child.name.startswith("."):
            yield from _runs_inside(child, above | {here})
