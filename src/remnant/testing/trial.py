"""A method on a tiny stream: its settings, its run, and what is observed in it."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from remnant.images import Task
from remnant.memory import Memory, MemoryConfig
from remnant.methods import Method, MethodConfig, MethodContext, SeesParts, kept_bytes
from remnant.methods.backbones import BackboneConfig
from remnant.phases import Batch, Phase, Player, StepReport, Terms, Watcher
from remnant.randomness import derive_seed
from remnant.testing.tiny_stream import (
    MEAN,
    PADDING,
    SHAPE,
    STD,
    Reads,
    make_set,
    make_tasks,
)
from remnant.training.batches import Preprocessing
from remnant.training.checkpoints import Checkpoints, Point
from remnant.training.network_state import Arrays
from remnant.training.processes import Processes, TrainingConfig
from remnant.training.task_loop import (
    TaskLoop,
    empty_tasks,
    load_standing_state,
    standing_state,
)
from remnant.training.trainer import Trainer
from remnant.views.augment import AugmentConfig

_SAVED_EVERY = 3  # steps between two checkpoints, where a run is to be resumed
_NEVER = 1_000_000_000
_INTERRUPTED = (0, 4)  # steps after the first of a phase: before its first checkpoint and after it


def small_config(method: type[Method[Any]], **changes: Any) -> MethodConfig:
    """Settings with which a method learns the tiny stream in about a second.

    Six epochs of stochastic gradient descent, and a small network if the method has a `backbone`;
    `changes` are settings of the method.

    Raises:
        InputError: The method needs other settings.
    """
    optimizer = {"name": "sgd", "lr": 0.05, "schedule": "cosine"}
    values: dict[str, Any] = {"first": {"epochs": 6, "batch_size": 8, "optimizer": optimizer}}
    backbone = method.Config.model_fields.get("backbone")
    if backbone is not None and backbone.annotation is BackboneConfig:
        values["backbone"] = {"name": "resnet8"}
    return method.Config.parse(values | changes)


@dataclass(frozen=True)
class Trial:
    """A method, and the settings with which it learns a tiny stream."""

    method: type[Method[Any]]
    config: MethodConfig
    memory: MemoryConfig | None
    task_sizes: tuple[int, ...] = (2, 2)
    seed: int = 3
    padding: int = PADDING  # pixels of the border of a crop

    @classmethod
    def of(
        cls,
        method: type[Method[Any]],
        config: MethodConfig | None = None,
        memory: MemoryConfig | None = None,
        task_sizes: tuple[int, ...] = (2, 2),
    ) -> Trial:
        """A trial with small settings where none are given."""
        if memory is None and method.uses_memory:
            memory = MemoryConfig(budget="6images/class")
        return cls(method, config or small_config(method), memory, task_sizes)

    @property
    def name(self) -> str:
        return self.config.name

    def build(self) -> Method[Any]:
        """The method before its first task."""
        memory = None
        if self.memory is not None:
            seed = derive_seed(self.seed, "memory")
            memory = Memory(self.memory, SHAPE, seed, num_classes=sum(self.task_sizes))
        torch.manual_seed(derive_seed(self.seed, "weights"))
        return self.method(self.config, MethodContext(SHAPE, self.task_sizes, memory))

    @cached_property
    def whole(self) -> TrialRun:
        """The run from the first task to the last, without interruption; made once."""
        with tempfile.TemporaryDirectory() as folder:
            run = TrialRun(self, Path(folder), saved_every=_NEVER)
            run.learn()
        return run


@dataclass(frozen=True)
class Shown:
    """What a loss was given at one step of a task after the first."""

    task: int
    phase: str
    views: torch.Tensor  # float [B, C, H, W]
    labels: torch.Tensor
    is_replay: torch.Tensor
    patches: torch.Tensor | None  # bool [B, GH, GW]: those that the network saw; None: all


@dataclass
class Notes:
    """What happened in a run."""

    reads: Reads = field(default_factory=Reads)
    accuracies: list[float] = field(default_factory=list)  # of the newest classes, 0 to 1
    kept: list[dict[str, int]] = field(default_factory=list)  # bytes after each task
    budgets: list[int] = field(default_factory=list)  # of the memory, in bytes, after each task
    # By task, phase and parameter: whether a parameter of the phase ever had a gradient
    gradients: dict[tuple[int, str, str], bool] = field(default_factory=lambda: defaultdict(bool))
    strays: set[tuple[int, str, str]] = field(default_factory=set)  # gradients of other parameters
    shown: list[Shown] = field(default_factory=list)


class TrialRun:
    """The run of a trial in a folder; another one in the same folder resumes it.

    Args:
        saved_every: Steps between two checkpoints.
    """

    def __init__(self, trial: Trial, folder: Path, *, saved_every: int = _SAVED_EVERY) -> None:
        self.notes = Notes()
        self.method = trial.build()
        self._sizes = trial.task_sizes
        self._tasks = make_tasks(trial.task_sizes, self.notes.reads)
        self._checkpoints = Checkpoints(folder)
        self.trainer = _NotingTrainer(trial, self.notes, saved_every)
        self._loop = TaskLoop(self.method, self.trainer, self._checkpoints, trial.seed, self._save)

    def learn(self, *watchers: Watcher) -> None:
        """Learn the tasks, from the newest checkpoint on."""
        point = self._checkpoints.newest_readable() or Point(0)
        self.restore(point.task)
        for task in self._tasks[point.task :]:
            self.notes.reads.task = task.index
            self._loop.learn([task], max(point, Point(task.index)), watchers)
            self._note(task)
            arrays, metadata = standing_state(self.method)
            self._checkpoints.save(Point(task.index + 1), arrays, metadata)

    def restore(self, num_tasks: int) -> None:
        """Bring a new method to where `num_tasks` tasks left it."""
        for task in empty_tasks(self._sizes, SHAPE)[:num_tasks]:
            self.method.grow(task)
        if num_tasks > 0:
            arrays, metadata = self._checkpoints.load(Point(num_tasks))
            load_standing_state(self.method, arrays, metadata, "the checkpoint")
        self.trainer.processes.prepare(self.method.eval())

    def state(self) -> tuple[Arrays, Any]:
        return standing_state(self.method)

    def _save(self, point: Point, arrays: Arrays) -> None:
        self._checkpoints.save(point, arrays, None)

    def _note(self, task: Task) -> None:
        tests = make_set(torch.tensor(task.new_labels), sum(self._sizes), seed=1000 + task.index)
        found = self.trainer.evaluate(self.method, tests)[:, 0]
        self.notes.accuracies.append(float((found == tests.labels).double().mean()))
        self.notes.kept.append(kept_bytes(self.method))
        memory = self.method.memory
        self.notes.budgets.append(0 if memory is None else memory.budget_bytes)


@cache
def _processes() -> Processes:
    threads = torch.get_num_threads()  # left as it is
    return Processes(TrainingConfig(accelerator="cpu", threads=threads))


class _NotingTrainer(Trainer):
    """Notes which parameters get a gradient."""

    def __init__(self, trial: Trial, notes: Notes, saved_every: int) -> None:
        look = Preprocessing(AugmentConfig(train="crop-flip", padding=trial.padding), MEAN, STD)
        super().__init__(_processes(), look, trial.seed, checkpoint_every_steps=saved_every)
        self._notes = notes

    def fit(
        self,
        method: Method,
        task: Task,
        phase: Phase,
        *,
        watchers: tuple[Watcher, ...] = (),
        resume_from: tuple[int, Mapping[str, np.ndarray]] | None = None,
        save: Callable[[int, Arrays], None] | None = None,
    ) -> None:
        def noting(player: Player) -> Player:
            note = partial(self._note, method, task, phase, player)
            look = partial(self._watch, method, task, phase, player)
            return replace(player, on_gradients=note, loss=look)

        phase = replace(phase, players=tuple(noting(player) for player in phase.players))
        super().fit(method, task, phase, watchers=watchers, resume_from=resume_from, save=save)

    def _watch(
        self, method: Method, task: Task, phase: Phase, player: Player, batch: Batch
    ) -> Terms:
        """Note what the loss is given, then take it; only `Method.loss` hides patches."""
        if task.index > 0:
            patches = None
            if isinstance(method, SeesParts) and player.loss == method.loss:
                patches = method.shown_patches(batch)
            shown = Shown(
                task.index, phase.name, batch.views, batch.labels, batch.is_replay, patches
            )
            self._notes.shown.append(shown)
        return player.loss(batch)

    def _note(self, method: Method, task: Task, phase: Phase, player: Player) -> None:
        moving = {id(parameter) for parameter in phase.parameters}
        for name, parameter in method.named_parameters():
            place, gradient = (task.index, phase.name, name), parameter.grad
            if id(parameter) in moving:
                has_gradient = gradient is not None and bool((gradient != 0).any())
                self._notes.gradients[place] |= has_gradient
            elif gradient is not None:
                self._notes.strays.add(place)
        if player.on_gradients is not None:
            player.on_gradients()


# ----------------------------------------------------------------------------------- interruptions


class Interrupted(Exception):
    """Training was stopped on purpose."""


class StopAt:
    """Interrupts at a step, counted over all phases from 0."""

    def __init__(self, step: int) -> None:
        self._left = step

    def on_step(self, report: StepReport) -> None:
        if self._left == 0:
            raise Interrupted
        self._left -= 1


class InterruptEachPhase:
    """Interrupts every phase once before its first checkpoint and, if it is long, once after it."""

    def __init__(self) -> None:
        self.done: set[tuple[int, str, int]] = set()  # task, phase, steps after the first
        self._first: dict[tuple[int, str], int] = {}

    def on_step(self, report: StepReport) -> None:
        here = (report.task, report.phase)
        after = report.step - self._first.setdefault(here, report.step)
        if after in _INTERRUPTED and (*here, after) not in self.done:
            self.done.add((*here, after))
            raise Interrupted
