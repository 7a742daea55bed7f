"""A whole run: its parts, wired together, and what is written after each task.

The loop itself (begin a task, fit its phases, end it) is `training.task_loop.TaskLoop.learn`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from remnant.config import RunConfig, load_config, settle
from remnant.data import describe_dataset, load_dataset
from remnant.data.stream import TaskStream, resolve_tasks, task_sizes
from remnant.errors import InputError, command_text, resume_command
from remnant.files import new_folder, only_writer, remove_temporary_files, write_json
from remnant.images import Task
from remnant.methods import Draws, build_method
from remnant.phases import RunWatcher, Watcher
from remnant.planning.flops import predict_flops
from remnant.reports import write_report
from remnant.runs.drawings import write_drawings
from remnant.runs.environment import as_begun, write_environment
from remnant.runs.evaluation import draw_memory, draw_tests, redraw_tests
from remnant.runs.events import Counters, EventLog
from remnant.runs.result_summary import summarise
from remnant.runs.run_folder import (
    CHECKPOINTS,
    CONFIG,
    ENVIRONMENT,
    FIGURES,
    MEMORY,
    MEMORY_PICTURE,
    REPORT,
    RunResult,
    is_finished,
    read_density,
    read_predictions,
    read_reconstructions,
    read_result,
    write_features,
    write_predictions,
    write_reconstructions,
    write_result,
)
from remnant.runs.run_origin import advising_on_images, check_origin, origin_of, read_mark
from remnant.training.batches import Preprocessing
from remnant.training.checkpoints import Checkpoints, Point
from remnant.training.launchers import find_launch, is_main_process, may_tell
from remnant.training.network_state import Arrays
from remnant.training.processes import LostProcessError, Processes, as_launched
from remnant.training.task_loop import TaskLoop, load_standing_state, standing_state
from remnant.training.trainer import Trainer


def run(config: RunConfig, folder: Path, *, watchers: tuple[Watcher, ...] = ()) -> RunResult:
    """Carry out a run in a new or empty folder.

    Raises:
        InputError: The folder is in use, or the config does not fit the data; nothing is left
            behind then.
    """
    with _one_voice(folder):
        return _run(config, folder, watchers)


def _run(config: RunConfig, folder: Path, watchers: tuple[Watcher, ...]) -> RunResult:
    validate_run(config)
    config = config.model_copy(update={"training": as_launched(config.training)})
    processes = _meet(config)
    config = settle(config)
    advice = f"Choose another --out, or continue its run with {resume_command(folder)}."
    files = (CONFIG, ENVIRONMENT)
    with new_folder(folder, advice, files) if is_main_process() else nullcontext():
        if is_main_process():
            write_json(folder / CONFIG, config.model_dump(mode="json"))
            write_environment(folder, config.training)
        experiment = Experiment(config, folder, watchers, processes)
    with _only_writer(folder), advising_on_images(config.data):
        return experiment.run()


def resume(folder: Path, *, watchers: tuple[Watcher, ...] = ()) -> RunResult:
    """Continue a run from its last checkpoint, as if it had never stopped.

    Raises:
        InputError: The folder is no run, is finished, or is damaged.
    """
    with _one_voice(folder):
        return _resume(folder, watchers)


def _resume(folder: Path, watchers: tuple[Watcher, ...]) -> RunResult:
    if not (folder / CONFIG).exists():
        raise InputError(
            f"{folder} holds no {CONFIG}, so there is no run to resume. Start one: remnant run."
        )
    if is_finished(folder):
        if is_main_process() and _finish_page(folder):
            return read_result(folder)
        raise InputError(
            f"{folder} is finished. See {folder / REPORT}, or start a new run with "
            f"{command_text('remnant', 'run', folder / CONFIG)}."
        )
    config = load_config(folder / CONFIG)
    training = as_begun(folder, as_launched(config.training))
    config = config.model_copy(update={"training": training})
    processes = _meet(config)
    with _only_writer(folder), advising_on_images(config.data):
        if is_main_process():
            remove_temporary_files(folder)
            if not (folder / ENVIRONMENT).exists():
                write_environment(folder, config.training)
        return Experiment(config, folder, watchers, processes).run()


def _meet(config: RunConfig) -> Processes | None:
    """Meet the processes that a launcher has started, before any of them can fail alone.

    Otherwise the others would wait for it, for half an hour. None where there is no launcher: the
    other processes are started once all that can be wrong with the data was told.
    """
    return None if find_launch() is None else Processes(config.training)


def validate_run(config: RunConfig) -> None:
    """Check everything that can be checked without data: the stream, the memory, the network.

    Raises:
        InputError: Something does not fit.
    """
    known = describe_dataset(config.data)
    sizes = task_sizes(config.stream, known)
    with torch.device("meta"):
        build_method(config, known.image_shape, sizes)
    for index, size in enumerate(sizes):
        config.method.check_task(index, size)


class Experiment:
    """One run, wired up, at the place where its checkpoints left it."""

    def __init__(
        self,
        config: RunConfig,
        folder: Path,
        watchers: tuple[Watcher, ...],
        processes: Processes | None = None,
    ) -> None:
        self._config = config
        self._folder = folder
        dataset = load_dataset(config.data)
        tasks = resolve_tasks(config.stream, describe_dataset(config.data))
        self._stream = TaskStream(dataset.train, dataset.test, dataset.class_names, tasks)
        # Starts the other processes: only now, so that an error in the data is printed once.
        self._processes = processes or Processes(config.training)
        self._image_shape = dataset.train.images.shape
        self._origin = origin_of(config, self._stream, dataset.train, dataset.test)
        self._method = build_method(config, self._image_shape, self._stream.task_sizes)
        if self._method.memory is not None:
            self._method.memory.folder = folder
        self._trainer = Trainer(
            self._processes,
            Preprocessing(config.augment, dataset.mean, dataset.std),
            config.seed,
            accumulate=config.training.accumulate,
            checkpoint_every_steps=config.training.checkpoint_every_steps,
            scratch=folder,
        )
        self._checkpoints = Checkpoints(folder / CHECKPOINTS)
        self._loop = TaskLoop(
            self._method,
            self._trainer,
            self._checkpoints,
            config.seed,
            self._save,
            lambda flops: self._counters.add_flops(flops),
        )
        self._watchers = watchers if self._processes.is_first else ()
        self._counters = Counters()
        self._log: EventLog | None = None  # of the first process, while the run goes on
        self._task_began = 0.0

    def run(self) -> RunResult:
        """Learn the tasks that are left and write the result."""
        self._processes.barrier()  # the first process has made the folder
        point = self._checkpoints.newest_readable() or Point(0)
        self._check_folder(point)
        self._restore(point)
        with self._telling():
            with self._open_log() as watchers:
                self._loop.learn(self._tasks(point), point, watchers, self._after_task)
            if self._processes.is_first:
                self._finish()
        self._processes.barrier()
        return read_result(self._folder)

    # ----------------------------------------------------------------------------- one task's steps

    def _tasks(self, point: Point) -> Iterator[Task]:
        """The tasks that are left, each noted as it begins."""
        for index in range(point.task, len(self._stream)):
            task = self._stream[index]
            self._task_began = time.perf_counter() - self._counters.task_seconds
            if self._log is not None and (point.is_start or index > point.task):
                self._log.write("task_begin", task=index, class_names=list(task.class_names))
            yield task

    def _after_task(self, task: Task) -> None:
        self._count_costs(task)
        self._evaluate(task)
        arrays, memory = standing_state(self._method)
        self._save(Point(task.index + 1), arrays, {"memory": memory})

    def _count_costs(self, task: Task) -> None:
        """What the task took, and the network's size: it may grow, and be pruned."""
        counters = self._counters
        counters.seconds_per_task.append(time.perf_counter() - self._task_began)
        counters.end_task(len(task.train))
        if isinstance(self._method, Draws):
            counters.working_bytes = self._method.working_bytes
        parameters = sum(parameter.numel() for parameter in self._method.parameters())
        counters.parameters_per_task.append(parameters)
        counters.predict_flops_per_task.append(predict_flops(self._method, self._image_shape))

    def _evaluate(self, task: Task) -> None:
        """Predict the test images of all classes seen, and write what follows from that."""
        reader, tests = self._trainer.reader, self._stream.seen_tests(task)
        top5 = self._trainer.evaluate(self._method, tests)
        is_last = task.index == len(self._stream) - 1
        features = reader.apply(self._method.features, tests) if is_last else None
        if self._log is None:
            return
        drawn = redraw_tests(self._method, reader, self._stream, task)
        if drawn is not None:
            write_reconstructions(self._folder, task.index, drawn)
        if (figure := draw_tests(self._method, reader, self._stream, task)) is not None:
            write_drawings(self._folder, figure)
        labels = tests.labels.numpy()
        write_predictions(self._folder, task.index, top5.numpy(), labels)
        if features is not None:
            write_features(self._folder, features.numpy(), labels)
        result = self._result(task.index + 1)
        write_result(self._folder, result)
        self._log.write(
            "task_end",
            task=task.index,
            accuracy=result.last_accuracy,
            accuracies=result.accuracy_matrix[-1],
            seconds=round(self._counters.seconds_per_task[-1], 3),
            memory_bytes=0 if result.memory is None else result.memory.used_bytes,
        )
        for watcher in self._run_watchers:
            watcher.on_task_end(task.index, result.model_dump(mode="json"))

    # ---------------------------------------------------------------------------------- checkpoints

    def _check_folder(self, point: Point) -> None:
        """All processes must start at the same point, which they find in one folder.

        Raises:
            InputError: Another machine has another folder of that name.
        """
        seen = [float((self._folder / CONFIG).exists()), point.task, point.phase, point.step]
        places = self._processes.gather(torch.tensor([seen], device=self._processes.device))
        if not bool((places == places[0]).all()):
            raise InputError(
                f"all processes must see the same folder {self._folder}; they do not. Put it on a "
                "file system that the machines share."
            )

    def _restore(self, point: Point) -> None:
        """Stand where the task of `point` starts: network, memory and counters until then."""
        method = self._method
        for index in range(point.task):
            method.grow(self._stream[index])
        if point != Point(0):
            mark = read_mark(self._checkpoints.load(point)[1], self._folder)
            check_origin(mark.origin, self._origin, self._folder)
            self._counters = mark.progress
        if point.task > 0:
            arrays, metadata = self._checkpoints.load(Point(point.task))
            memory = read_mark(metadata, self._folder).memory
            load_standing_state(method, arrays, memory, str(self._folder))
            if method.memory is not None:
                seen = self._stream.class_names[: sum(self._stream.task_sizes[: point.task])]
                method.memory.require_classes(seen, str(self._folder))
        self._processes.prepare(method.eval())

    def _save(self, point: Point, arrays: Arrays, more: dict[str, Any] | None = None) -> None:
        if self._log is not None:
            elapsed = time.perf_counter() - self._task_began
            self._counters.task_seconds = 0.0 if point.is_start else elapsed
            self._log.sync()
            metadata = {"origin": self._origin, "progress": self._counters.to_json()}
            self._checkpoints.save(point, arrays, metadata | (more or {}))
        self._processes.barrier()

    @property
    def _run_watchers(self) -> list[RunWatcher]:
        """Watchers of the whole run, not only of steps."""
        return [watcher for watcher in self._watchers if isinstance(watcher, RunWatcher)]

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Tell watchers where the run begins, and let them close their files however it ends."""
        values = self._config.model_dump(mode="json")
        try:
            for watcher in self._run_watchers:
                watcher.on_run_begin(self._folder, values, self._counters.train_images)
            yield
        finally:
            for watcher in self._run_watchers:
                watcher.close()

    @contextmanager
    def _open_log(self) -> Iterator[tuple[Watcher, ...]]:
        """The event log among the watchers, in the first process."""
        if not self._processes.is_first:
            yield ()
            return
        log = EventLog(self._folder, self._counters, self._config.training.log_every_steps)
        self._log = log
        try:
            yield (log, *self._watchers)
        finally:
            log.close()
            self._log = None

    # ----------------------------------------------------------------------------------- the result

    def _finish(self) -> None:
        """Write all that a reader of the folder wants; repeated whole if a kill came between."""
        folder, memory = self._folder, self._method.memory
        if memory is not None:
            memory.save(folder / MEMORY)
            draw_memory(self._method, self._trainer.reader, folder / FIGURES / MEMORY_PICTURE)
        more = {
            "density": read_density(folder),
            "reconstruction": [one.scores for one in read_reconstructions(folder)],
            # Nothing is left to do but the page, which `remnant report` can write as well.
            "finished": True,
        }
        write_result(folder, self._result(len(self._stream)).model_copy(update=more))
        write_report(folder)
        for watcher in self._run_watchers:
            watcher.on_run_end(read_result(folder).model_dump(mode="json"))

    def _result(self, num_tasks_done: int) -> RunResult:
        """The numbers so far."""
        predictions = [read_predictions(self._folder, task) for task in range(num_tasks_done)]
        return summarise(self._config, self._stream, self._method, self._counters, predictions)


def _finish_page(folder: Path) -> bool:
    """Write the page that a kill or a full disk left unwritten; whether there was anything to do.

    A page can always be drawn again, so a run counts as finished before it has one.
    """
    with only_writer(folder / CONFIG):
        remove_temporary_files(folder)
        if (folder / REPORT).exists():
            return False
        write_report(folder)
    return True


@contextmanager
def _one_voice(folder: Path) -> Iterator[None]:
    """Of all processes that cannot go on, let the first say why, and the others end in silence."""
    try:
        yield
    except (InputError, OSError) as error:
        if not may_tell(folder):
            sys.exit(2)
        if isinstance(error, LostProcessError):
            command = resume_command(folder)
            raise InputError(f"{error}. Continue the run with {command}.") from None
        raise


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Keep a second run or resume out of the folder."""
    with only_writer(folder / CONFIG) if is_main_process() else nullcontext():
        yield
