"""Rows that cost the same: epochs changed until FLOPs or seconds equal those of the first row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from remnant.config import override
from remnant.planning.calibration import kind_of, measure_speeds, one_thread
from remnant.planning.run_estimate import estimate
from remnant.studies.study import Equal
from remnant.studies.study_runs import StudyRun

_CALIBRATION_SECONDS = 20.0
_EPOCHS = "method.first.epochs"


def equal_epochs(runs: Sequence[StudyRun], equal: Equal) -> dict[str, int]:
    """Epochs of every run by name, such that it costs what the first row does in its column.

    Seconds are measured on this machine, so they are chosen once and then kept with the study.
    """
    if equal == "steps":
        return {}
    with one_thread():
        costs = {run.name: float(estimate(run.config)["train_flops"]) for run in runs}
        if equal == "seconds":
            speeds = measure_speeds([run.config for run in runs], _CALIBRATION_SECONDS)
            for run in runs:
                costs[run.name] /= speeds[kind_of(run.config)].flops_per_second
    reference: dict[str, float] = {}
    for run in runs:
        reference.setdefault(run.column, costs[run.name])
    return {
        run.name: max(1, round(run.config.method.first.epochs * reference[run.column] / cost))
        for run in runs
        if (cost := costs[run.name]) > 0
    }


def with_epochs(
    runs: Sequence[StudyRun], epochs: Mapping[str, int], equal: Equal
) -> list[StudyRun]:
    """The runs with the epochs of `equal_epochs`, under names of their own where they differ."""
    changed = []
    for run in runs:
        wanted = epochs.get(run.name)
        if wanted is None or wanted == run.config.method.first.epochs:
            changed.append(run)
            continue
        config = override(run.config, {_EPOCHS: wanted})
        changed.append(replace(run, name=f"{run.name}-equal-{equal}", config=config))
    return changed
