"""A finished run, opened again: its stream, and its method as the last task left it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remnant.config import RunConfig, load_config, override
from remnant.data import DATASETS, describe_dataset, load_dataset
from remnant.data.stream import TaskStream, resolve_tasks
from remnant.errors import InputError
from remnant.methods import Method, build_method
from remnant.runs.run_folder import CHECKPOINTS, CONFIG, require_finished
from remnant.training.batches import Preprocessing
from remnant.training.checkpoints import Checkpoints, Point
from remnant.training.processes import Processes
from remnant.training.reader import ViewReader
from remnant.training.task_loop import load_standing_state


@dataclass(frozen=True)
class FinishedRun:
    """What is needed to ask a run again."""

    config: RunConfig
    stream: TaskStream
    method: Method[Any]
    reader: ViewReader
    look: Preprocessing


def open_run(folder: Path, data_root: Path | None = None) -> FinishedRun:
    """Read the last checkpoint of a finished run, and its images.

    Args:
        data_root: Where the data sets are, if not where they were.

    Raises:
        InputError: The folder is not a finished run, or has no checkpoint of its end.
    """
    require_finished(folder)
    config = load_config(folder / CONFIG)
    place = DATASETS[config.data.dataset].place_setting
    places = {} if data_root is None else {place: str(data_root)}
    config = override(config, places | {"training.devices": 1, "training.num_nodes": 1})
    checkpoints, known = Checkpoints(folder / CHECKPOINTS), describe_dataset(config.data)
    tasks = resolve_tasks(config.stream, known)
    end = Point(len(tasks))
    if end not in checkpoints.points():
        raise InputError(
            f"{folder} must have the checkpoint of its end, {CHECKPOINTS}/{end.file_name}; it was "
            "removed. Run its config.json into a new folder."
        )
    data = load_dataset(config.data)
    stream = TaskStream(data.train, data.test, data.class_names, tasks)
    method = build_method(config, data.train.images.shape, stream.task_sizes)
    for task in stream:
        method.grow(task)
    arrays, metadata = checkpoints.load(end)
    load_standing_state(method, arrays, metadata.get("memory"), str(folder))
    processes = Processes(config.training)
    processes.prepare(method.eval())
    look = Preprocessing(config.augment, data.mean, data.std)
    return FinishedRun(config, stream, method, ViewReader(processes, look, config.seed), look)
