"""What the runs of a study will take, told before they start."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from remnant.config import RunConfig
from remnant.data import DATASETS, data_root, describe_dataset
from remnant.data.stream import task_sizes
from remnant.errors import InputError
from remnant.methods import build_method
from remnant.planning.calibration import (
    gpu_hours,
    kind_of,
    measure_speed,
    one_thread,
    saved_bytes_per_image,
)
from remnant.planning.memory_table import plan_memory
from remnant.planning.run_estimate import estimate
from remnant.reports.units import bytes_text
from remnant.runs.run_folder import CONFIG
from remnant.studies.study_runs import StudyRun
from remnant.training.task_loop import empty_tasks

CALIBRATION_SECONDS = 20.0
# What the code of a method may raise, plug-ins too, when it gets noise: none may end the others.
_OF_A_METHOD = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RuntimeError,
    TypeError, ValueError,
)  # fmt: skip
_BYTES_PER_PARAMETER = 4 * 12  # two checkpoints with weights, two moments and a teacher each
_MEMORIES = 3  # in two checkpoints and in the result
_BYTES_BESIDE = 4 << 20  # predictions, features, pictures, page and log


@dataclass(frozen=True)
class Forecast:
    """One run: what it will do, and for how long."""

    run: StudyRun
    state: str  # "done", "begun" or "to do"
    images: int
    flops: float
    parameters: int  # after the last task
    hours: float | None  # here, on one thread; None: not measured
    gpu_hours: float
    gpu_bytes: int  # of a training step at its own batch size, roughly


@dataclass(frozen=True)
class NoForecast:
    """A run of which nothing can be told before it starts."""

    run: StudyRun
    reason: str


def forecast(
    runs: Sequence[StudyRun],
    folder: Path,
    gpu: str = "a100",
    seconds: float | None = CALIBRATION_SECONDS,
) -> tuple[list[Forecast], list[NoForecast]]:
    """Every distinct run, with hours from a measurement on this machine, or none without seconds.

    A method may need more than noise to compute a loss. Such runs come apart, with the reason.
    """
    distinct = {run.name: run for run in runs}
    kinds = {name: kind_of(run.config) for name, run in distinct.items()}
    measured = Measurements(None if seconds is None else seconds / max(1, len({*kinds.values()})))
    known: dict[str, Forecast] = {}
    unknown: dict[str, NoForecast] = {}
    with one_thread():
        # Runs of a kind one after another: what was counted for the last one serves the next.
        for name in sorted(distinct, key=lambda name: kinds[name]):
            try:
                known[name] = _forecast(distinct[name], folder, measured, gpu)
            except _OF_A_METHOD as error:
                unknown[name] = NoForecast(distinct[name], _reason(error))
    return (
        [known[name] for name in distinct if name in known],
        [unknown[name] for name in distinct if name in unknown],
    )


class Measurements:
    """Plans of runs, speed and bytes of kinds of runs, made when they are first asked for.

    Speeds are measured in about so many seconds for each kind; None: not at all.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._plans: dict[str, dict[str, Any]] = {}
        self._speeds: dict[str, float] = {}
        self._saved: dict[str, int] = {}

    def plan(self, config: RunConfig) -> dict[str, Any]:
        """The estimate of a run, which neither its seed nor the order of its classes changes."""
        key = config.model_dump_json(exclude={"recipe": True, "seed": True, "stream": {"order"}})
        if key not in self._plans:
            self._plans[key] = estimate(config)
        return self._plans[key]

    def flops(self, config: RunConfig) -> float:
        return float(self.plan(config)["train_flops"])

    def hours(self, config: RunConfig, flops: float) -> float | None:
        return None if self._seconds is None else flops / self.speed(config) / 3600

    def speed(self, config: RunConfig) -> float:
        """In FLOPs per second."""
        assert self._seconds is not None, "speed takes time to measure"
        kind = kind_of(config)
        if kind not in self._speeds:
            self._speeds[kind] = measure_speed(config, self._seconds).flops_per_second
        return self._speeds[kind]

    def saved_bytes(self, config: RunConfig) -> int:
        kind = kind_of(config)
        if kind not in self._saved:
            self._saved[kind] = saved_bytes_per_image(config)
        return self._saved[kind]


def _reason(error: Exception) -> str:
    first = next(iter(str(error).splitlines()), "")
    return first if isinstance(error, InputError) else f"{type(error).__name__}: {first}"


def _forecast(run: StudyRun, folder: Path, measured: Measurements, gpu: str) -> Forecast:
    state = state_of(run, folder)
    plan = measured.plan(run.config)
    flops, parameters = plan["train_flops"], plan["parameters"]
    batch = run.config.method.first.batch_size
    return Forecast(
        run,
        state,
        plan["train_images"],
        flops,
        parameters,
        measured.hours(run.config, flops),
        gpu_hours(flops, gpu),
        # Weights, gradients and two moments; half precision halves what is saved.
        16 * parameters + measured.saved_bytes(run.config) * batch // 2,
    )


def state_of(run: StudyRun, folder: Path) -> str:
    if run.is_done(folder):
        return "done"
    return "begun" if (folder / run.name / CONFIG).exists() else "to do"


def _disk_bytes(parameters: int) -> int:
    return _BYTES_PER_PARAMETER * parameters + _BYTES_BESIDE


def check_room(runs: Sequence[StudyRun], folder: Path) -> None:
    """Raises InputError where the disk cannot hold the folders of the runs that are left."""
    left = {run.name: run for run in runs if not run.is_done(folder)}
    if not left:
        return
    needed = sum(_folder_bytes(run.config) for run in left.values())
    existing = next(one for one in (folder, *folder.parents) if one.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise InputError(
            f"{len(left)} runs need about {bytes_text(needed)} below {folder}; {bytes_text(free)} "
            "are free. Choose another --out, or some of the --rows."
        )


def _folder_bytes(config: RunConfig) -> int:
    """Checkpoints of the network as it is at the end, each with the memory, and the rest."""
    known = describe_dataset(config.data)
    shape = known.image_shape
    sizes = task_sizes(config.stream, known)
    with torch.device("meta"):
        method = build_method(config, shape, sizes)
        for task in empty_tasks(sizes, shape):
            method.grow(task)
    exemplars = 0
    if config.memory is not None:
        plan = plan_memory(config.memory, shape, [sum(sizes)], known.train_per_class or None)
        exemplars = plan[-1]["budget_bytes"] or 0
    parameters = sum(parameter.numel() for parameter in method.parameters())
    return _disk_bytes(parameters) + _MEMORIES * exemplars


def check_data(runs: Sequence[StudyRun], root: Path | None) -> None:
    """Raises InputError where the files of a data set are not there, and says how to get them."""
    for name in dict.fromkeys(run.config.data.dataset for run in runs):
        spec = DATASETS[name]
        place = data_root(None if root is None else str(root))
        if not spec.needs_path and not spec.is_present(place):
            how = f"Get it with remnant data get {name}, or give its place as --data-root."
            raise InputError(
                f"{spec.facts.title} is not under {place}. "
                + (spec.how_to_get.format(root=place) if spec.how_to_get else how)
            )
