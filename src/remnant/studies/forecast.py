"""What the runs of a study will take, told before they start."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from remnant.data import DATASETS, data_root
from remnant.errors import InputError
from remnant.planning.calibration import Speed, gpu_hours, kind_of, measure_speeds, one_thread
from remnant.planning.run_estimate import estimate
from remnant.reports.units import bytes_text
from remnant.runs.run_folder import CONFIG
from remnant.studies.study_runs import StudyRun

CALIBRATION_SECONDS = 20.0
_BYTES_PER_PARAMETER = 4 * 12  # two checkpoints with weights, two moments and a teacher each
_BYTES_BESIDE = 4 << 20  # predictions, features, pictures, page and log


@dataclass(frozen=True)
class Forecast:
    """One run: what it will do, and for how long."""

    run: StudyRun
    state: str  # "done", "begun" or "to do"
    images: int
    flops: float
    hours: float  # here, on one thread
    gpu_hours: float
    gpu_bytes: int  # of a training step at its own batch size, roughly
    disk_bytes: int


def forecast(
    runs: Sequence[StudyRun],
    folder: Path,
    gpu: str = "a100",
    seconds: float = CALIBRATION_SECONDS,
) -> list[Forecast]:
    """Every distinct run, with hours from a short measurement on this machine."""
    distinct = list({run.name: run for run in runs}.values())
    with one_thread():
        speeds = measure_speeds([run.config for run in distinct], seconds)
        return [_forecast(run, folder, speeds[kind_of(run.config)], gpu) for run in distinct]


def _forecast(run: StudyRun, folder: Path, speed: Speed, gpu: str) -> Forecast:
    plan = estimate(run.config)
    batch = run.config.method.first.batch_size
    return Forecast(
        run,
        state_of(run, folder),
        plan["train_images"],
        plan["train_flops"],
        plan["train_flops"] / speed.flops_per_second / 3600,
        gpu_hours(plan["train_flops"], gpu),
        # Weights, gradients and two moments; half precision halves what is saved.
        16 * plan["parameters"] + speed.saved_bytes_per_image * batch // 2,
        _disk_bytes(plan["parameters"]),
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
    sizes: dict[str, int] = {}
    for run in left.values():
        kind = kind_of(run.config)
        if kind not in sizes:
            sizes[kind] = _disk_bytes(estimate(run.config)["parameters"])
    needed = sum(sizes[kind_of(run.config)] for run in left.values())
    existing = next(one for one in (folder, *folder.parents) if one.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise InputError(
            f"{len(left)} runs need about {bytes_text(needed)} below {folder}; {bytes_text(free)} "
            "are free. Choose another --out, or some of the --rows."
        )


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
