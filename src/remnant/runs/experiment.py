"""A whole run: the loop over tasks, and the only place where the parts are wired together."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from remnant import metrics
from remnant._version import __version__
from remnant.archives import read_archive, write_archive
from remnant.config import RunConfig, load_config
from remnant.data import facts as dataset_facts
from remnant.data import load_dataset
from remnant.data.stream import TaskStream, resolve_tasks
from remnant.errors import InputError
from remnant.files import make_folder, only_writer, remove_temporary_files, write_json
from remnant.images import Task
from remnant.methods import Draws, build_method
from remnant.planning.flops import predict_flops
from remnant.reports import write_report
from remnant.runs.evaluation import draw_memory, read_scores, save_reconstructions
from remnant.runs.journal import (
    EventLog,
    Progress,
    write_environment,
    write_predictions,
    write_result,
)
from remnant.training.batches import Look
from remnant.training.checkpoints import Checkpoints, Point
from remnant.training.network_state import Arrays
from remnant.training.processes import Processes, is_main_process
from remnant.training.task_loop import TaskLoop, load_standing_state, standing_state
from remnant.training.trainer import Trainer, Watcher


def run(config: RunConfig, folder: Path, *, watchers: tuple[Watcher, ...] = ()) -> dict[str, Any]:
    """Carry out a run in a new or empty folder and return what result.json says.

    Raises:
        InputError: The folder is in use, or the config does not fit the data; nothing is left
            behind then.
    """
    check_plan(config)
    with _new_folder(folder):
        if is_main_process():
            write_json(folder / "config.json", config.model_dump(mode="json"))
            write_environment(folder, config.training)
        experiment = Experiment(config, folder, watchers)
    with _only_writer(folder):
        return experiment.carry_out()


def resume(folder: Path, *, watchers: tuple[Watcher, ...] = ()) -> dict[str, Any]:
    """Continue a run from its last checkpoint, as if it had never stopped.

    Raises:
        InputError: The folder is no run, is finished, or is damaged.
    """
    if not (folder / "config.json").exists():
        raise InputError(
            f"{folder} holds no config.json, so there is no run to resume. Start one: remnant run."
        )
    if is_finished(folder):
        raise InputError(
            f"{folder} is finished. See {folder / 'report.html'}, or start a new run with "
            f"remnant run {folder / 'config.json'}."
        )
    config = load_config(folder / "config.json")
    with _only_writer(folder):
        if is_main_process():
            remove_temporary_files(folder)
            if not (folder / "environment.json").exists():
                write_environment(folder, config.training)
        return Experiment(config, folder, watchers).carry_out()


def is_finished(folder: Path) -> bool:
    """Whether a run folder holds a final result."""
    try:
        result = json.loads((folder / "result.json").read_text())
    except (OSError, ValueError):
        return False
    return isinstance(result, dict) and result.get("finished") is True


def check_plan(config: RunConfig) -> list[list[int]]:
    """The classes of each task, once everything that can be checked without data holds."""
    known = dataset_facts(config.data)
    tasks = resolve_tasks(
        config.stream, known.num_classes, known.default_order, known.default_num_tasks
    )
    size = known.image_size
    with torch.device("meta"):
        build_method(config, (size, size, known.channels), [len(task) for task in tasks])
    return tasks


class Experiment:
    """One run, wired up, at the place where its checkpoints left it."""

    def __init__(self, config: RunConfig, folder: Path, watchers: tuple[Watcher, ...]) -> None:
        self._config = config
        self._folder = folder
        dataset = load_dataset(config.data)
        known = dataset_facts(config.data)
        tasks = resolve_tasks(
            config.stream, len(dataset.class_names), known.default_order, known.default_num_tasks
        )
        self._stream = TaskStream(dataset.train, dataset.test, dataset.class_names, tasks)
        # Starts the other processes: only now, so that bad data is told once, by one.
        self._processes = Processes(config.training)
        look = Look(config.augment, dataset.mean, dataset.std)
        self._image_shape = dataset.train.images.shape
        self._method = build_method(config, self._image_shape, self._stream.task_sizes)
        self._trainer = Trainer(
            self._processes,
            look,
            config.seed,
            accumulate=config.training.accumulate,
            checkpoint_every_steps=config.training.checkpoint_every_steps,
        )
        self._checkpoints = Checkpoints(folder / "checkpoint")
        self._loop = TaskLoop(
            self._method, self._trainer, self._checkpoints, config.seed, self._save
        )
        self._watchers = watchers if self._processes.is_first else ()
        self._progress = Progress()
        self._log: EventLog | None = None
        self._task_began = 0.0

    def carry_out(self) -> dict[str, Any]:
        """Run the tasks that are left and write the result."""
        point = self._checkpoints.newest_readable() or Point(0)
        self._processes.barrier()
        self._restore(point)
        result: dict[str, Any] = {}
        with self._events() as events:
            for index in range(point.task, len(self._stream)):
                task = self._stream[index]
                self._task_began = time.perf_counter() - self._progress.task_seconds
                self._learn(task, point if point.task == index else Point(index), events)
                self._progress.seconds_per_task.append(time.perf_counter() - self._task_began)
                self._count_costs()
                self._evaluate(task)
                self._note_task_end(task, events)
                self._save_start(index + 1)
        if self._processes.is_first:
            result = self._finish()
        self._processes.barrier()
        return result

    # ----------------------------------------------------------------------------- one task's steps

    def _learn(self, task: Task, point: Point, events: EventLog | None) -> None:
        if point.is_start and events is not None:
            events.write("task_begin", task=task.index, class_names=list(task.class_names))
        watchers = self._watchers if events is None else (events, *self._watchers)
        self._loop.learn(task, point, watchers)
        if isinstance(self._method, Draws):
            self._progress.working_bytes = self._method.working_bytes

    def _count_costs(self) -> None:
        """What the network has come to: networks may grow with the tasks, and be pruned."""
        parameters = sum(parameter.numel() for parameter in self._method.parameters())
        self._progress.parameters_per_task.append(parameters)
        flops = predict_flops(self._method, self._image_shape)
        self._progress.predict_flops_per_task.append(flops)

    def _evaluate(self, task: Task) -> None:
        tests = self._stream.seen_tests(task)
        top5 = self._trainer.evaluate(self._method, tests)
        is_last = task.index == len(self._stream) - 1
        features = self._trainer.reader.apply(self._method.features, tests) if is_last else None
        if not self._processes.is_first:
            return
        save_reconstructions(self._folder, self._method, self._trainer.reader, self._stream, task)
        labels = tests.labels.numpy()
        write_predictions(self._folder, task.index, top5.numpy(), labels)
        if features is not None:
            arrays = {"features": features.numpy(), "labels": labels}
            write_archive(self._folder / "features.safetensors", "features", 1, arrays, {})

    def _note_task_end(self, task: Task, events: EventLog | None) -> None:
        if events is None:
            return
        result = self._write_result(task.index + 1, {"density": None})
        events.write(
            "task_end",
            task=task.index,
            accuracy=result["last_accuracy"],
            accuracies=result["accuracy_matrix"][-1],
            seconds=round(self._progress.seconds_per_task[-1], 3),
            memory_bytes=result["memory"]["used_bytes"],
        )

    # -------------------------------------------------------------------------- standing and saving

    def _restore(self, point: Point) -> None:
        """Stand where the task of `point` starts: network, memory and progress until then."""
        method = self._method
        for index in range(point.task):
            method.grow(self._stream[index])
        if point.task > 0:
            arrays, metadata = self._checkpoints.load(Point(point.task))
            load_standing_state(method, arrays, metadata.get("memory"), str(self._folder))
        self._processes.prepare(method.eval())
        if point != Point(0):
            _, metadata = self._checkpoints.load(point)
            _check_origin(metadata["origin"], self._origin(), self._folder)
            self._progress = Progress.from_json(metadata["progress"])

    def _origin(self) -> dict[str, str]:
        """What a checkpoint belongs to: a change of these would make another run of it."""
        values = self._config.model_dump(mode="json", exclude={"training"})
        for machine_setting in ("root", "workers"):
            del values["data"][machine_setting]
        text = json.dumps([values, list(self._stream.class_names), len(self._stream[0].train)])
        return {
            "remnant": __version__,
            "config": hashlib.sha256(text.encode()).hexdigest(),
        }

    def _save_start(self, task_index: int) -> None:
        arrays, memory = standing_state(self._method)
        self._save(Point(task_index), arrays, {"memory": memory})

    def _save(self, point: Point, arrays: Arrays, more: dict[str, Any] | None = None) -> None:
        if self._processes.is_first:
            elapsed = time.perf_counter() - self._task_began
            self._progress.task_seconds = 0.0 if point.is_start else elapsed
            if self._log is not None:
                self._log.sync()
            metadata = {"origin": self._origin(), "progress": self._progress.to_json()}
            self._checkpoints.save(point, arrays, metadata | (more or {}))
        self._processes.barrier()

    @contextmanager
    def _events(self) -> Iterator[EventLog | None]:
        if not self._processes.is_first:
            yield None
            return
        log = EventLog(self._folder, self._progress, self._config.training.log_every_steps)
        self._log = log
        try:
            yield log
        finally:
            log.close()
            self._log = None

    # --------------------------------------------------------------------------------- what is told

    def _finish(self) -> dict[str, Any]:
        """Write all that a reader of the folder wants; repeated whole if a kill came between."""
        folder, memory = self._folder, self._method.memory
        if memory is not None:
            memory.save(folder / "memory.safetensors")
            draw_memory(self._method, self._trainer.reader, folder / "figures" / "memory.png")
        result = self._write_result(
            len(self._stream), {"density": _density(folder), "reconstruction": read_scores(folder)}
        )
        # Only now is nothing left to do but the page, which `remnant report` can write as well.
        result["finished"] = True
        write_json(folder / "result.json", result)
        write_report(folder)
        return result

    def _write_result(self, num_tasks_done: int, more: dict[str, Any]) -> dict[str, Any]:
        facts = {
            "parameters": self._progress.parameters_per_task[-1],
            "flops_per_image": {"predict": self._progress.predict_flops_per_task[-1]},
            "memory": self._memory_facts(),
            **more,
        }
        return write_result(
            self._folder, self._config, self._stream, self._progress, num_tasks_done, facts
        )

    def _memory_facts(self) -> dict[str, Any]:
        memory = self._method.memory
        if memory is None:
            return {"budget_bytes": 0, "used_bytes": 0, "exemplars_per_class": [], "ledger": {}}
        return {
            "budget_bytes": memory.budget_bytes,
            "used_bytes": memory.nbytes,
            "exemplars_per_class": memory.counts,
            "ledger": memory.ledger(),
            "digest": memory.digest(),
            "working_bytes": self._progress.working_bytes,
        }


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Keep a second run or resume out of the folder."""
    if not is_main_process():
        yield
        return
    with only_writer(folder / "config.json"):
        yield


@contextmanager
def _new_folder(folder: Path) -> Iterator[None]:
    """A folder for a run, taken away again if the run cannot start."""
    if not is_main_process():
        yield
        return
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} must be a folder to write the run into; it is a file.")
    if folder.is_dir():
        # Only what a run killed at its very start leaves: the folder may be anybody's.
        if all(path.match(".*.json.*.tmp") for path in folder.iterdir()):
            remove_temporary_files(folder)
        if any(folder.iterdir()):
            raise InputError(
                f"{folder} is not empty. Choose another --out, or continue its run with "
                f"remnant resume {folder}."
            )
    was_there = folder.is_dir()
    make_folder(folder)
    try:
        yield
    except BaseException:
        for name in ("config.json", "environment.json"):
            (folder / name).unlink(missing_ok=True)
        if not was_there:
            folder.rmdir()
        raise


def _check_origin(saved: dict[str, str], now: dict[str, str], folder: Path) -> None:
    """A run goes on exactly only with the program, config and data that it began with."""
    if saved["remnant"] != now["remnant"]:
        raise InputError(
            f"{folder} was written by remnant {saved['remnant']}; this is {now['remnant']}. Resume "
            "it with that version, or run its config.json into a new folder."
        )
    if saved["config"] != now["config"]:
        raise InputError(
            f"the config or the data of {folder} changed since its last checkpoint. Put back what "
            "it was, or run its config.json into a new folder."
        )


def _density(folder: Path) -> dict[str, Any]:
    arrays, _ = read_archive(folder / "features.safetensors", "features", 1)
    features, labels = arrays["features"], arrays["labels"]
    found = metrics.density(features, labels) | {"pi_roth": metrics.pi_roth(features, labels)}
    return {
        name: value if value is not None and math.isfinite(value) else None
        for name, value in found.items()
    }
