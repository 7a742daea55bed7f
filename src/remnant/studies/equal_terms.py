"""Rows that cost the same: epochs changed until FLOPs or seconds equal those of the first row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from remnant.config import RunConfig, override
from remnant.planning.calibration import kind_of, measure_speed, one_thread
from remnant.planning.run_estimate import estimate
from remnant.studies.study import Equal, Study, StudyScale
from remnant.studies.study_runs import StudyRun, config_of

_SECONDS_PER_KIND = 2.0


def equal_epochs(
    study: Study, scale: StudyScale, runs: Sequence[StudyRun], equal: Equal
) -> dict[str, int]:
    """Epochs of every run by name, such that it costs what the study's first row does there.

    Seconds are measured on this machine, so they are chosen once and then kept with the study.
    """
    speeds: dict[str, float] = {}

    def cost(config: RunConfig) -> float:
        flops = float(estimate(config)["train_flops"])
        if equal == "flops":
            return flops
        kind = kind_of(config)
        if kind not in speeds:
            speeds[kind] = measure_speed(config, _SECONDS_PER_KIND).flops_per_second
        return flops / speeds[kind]

    references: dict[str, float] = {}
    found = {}
    with one_thread():
        for run in runs:
            if run.column not in references:
                config = config_of(study.rows[0], study.column(scale, run.column), scale)
                assert config is not None, "the first row of a study runs in every column"
                references[run.column] = cost(config)
            share = references[run.column] / max(1.0, cost(run.config))
            found[run.name] = max(1, round(run.config.method.first.epochs * share))
    return found


def with_epochs(runs: Sequence[StudyRun], epochs: Mapping[str, int]) -> list[StudyRun]:
    """The runs with the epochs of `equal_epochs`, under names that tell them where they differ."""
    changed = []
    for run in runs:
        first, later = run.config.method.first, run.config.method.later
        wanted = epochs.get(run.name, first.epochs)
        if wanted == first.epochs:
            changed.append(run)
            continue
        changes = {"method.first.epochs": wanted}
        if later is not None:
            changes["method.later.epochs"] = max(1, round(later.epochs * wanted / first.epochs))
        config = override(run.config, changes)
        changed.append(replace(run, name=f"{run.name}-{wanted}-epochs", config=config))
    return changed
