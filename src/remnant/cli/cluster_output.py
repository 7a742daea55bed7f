"""Runs of a study as jobs of a cluster: what is asked for, and what is said of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from remnant.cli import console
from remnant.errors import InputError


def read_cluster(
    kind: Literal["slurm", "local"] | None,
    gpus_per_run: int | None,
    hours: float | None,
    partition: str | None,
    set_slurm: list[str] | None,
) -> Any:
    """What is asked of a cluster, as `ClusterOptions`; None where no cluster is.

    Raises:
        InputError: The options do not go together, or the cluster cannot be used from here.
    """
    given = {"--gpus-per-run": gpus_per_run, "--hours": hours, "--partition": partition,
             "--set-slurm": set_slurm}  # fmt: skip
    of_slurm = ("--partition", "--set-slurm")
    for option, value in given.items():
        if value is not None and (kind is None or (kind == "local" and option in of_slurm)):
            needed = "--cluster slurm" if option in of_slurm else "--cluster slurm or local"
            raise InputError(f"{option} needs {needed}.")
    if kind is None:
        return None
    if gpus_per_run is not None and gpus_per_run < 0:
        raise InputError(f"--gpus-per-run must be 0 or more; got {gpus_per_run}.")
    if hours is not None and not 0 < hours < math.inf:
        raise InputError(f"--hours must be above 0 and finite; got {hours:g}.")
    from remnant.studies.cluster import ClusterOptions, check_cluster

    options = ClusterOptions(
        kind,
        _gpus_per_run(kind, gpus_per_run),
        24.0 if hours is None else hours,
        partition,
        console.parse_settings(set_slurm, {}, "--set-slurm"),
    )
    check_cluster(options)
    return options


def _gpus_per_run(kind: str, asked: int | None) -> int:
    if kind == "slurm":
        return 1 if asked is None else asked
    import torch

    present = torch.cuda.device_count()
    if asked is not None and asked > present:
        raise InputError(f"--gpus-per-run {asked} needs as many GPUs here; there are {present}.")
    return min(1, present) if asked is None else asked


def submit_runs(
    folders: Sequence[Any], runs: Sequence[Any], options: Any, data_root: Path | None
) -> None:
    """Give the runs to Slurm, and say which job has which and what to call when they are done."""
    from remnant.studies.cluster import submit

    submission = submit(runs, folders[0].runs_path, options, data_root)
    for name, job in submission.submitted.items():
        console.out.print(f"submitted {name} as job {job}", markup=False)
    for name, job in submission.pending.items():
        console.out.print(f"waiting for {name}, which has job {job}", markup=False)
    if any(job.endswith(("UNKNOWN", "PREEMPTED")) for job in submission.pending.values()):
        book = folders[0].runs_path.parent / "jobs" / "jobs.json"
        console.notes.print(
            "Slurm does not report the state of some jobs. If they have ended, delete their "
            f"entries from {book} and run this again.",
            markup=False,
        )
    for folder in folders:
        console.out.print(f"when they are done: remnant study {folder.path}", markup=False)
