"""Rows that cost the same: schedules stretched until FLOPs or seconds equal those of the first row.

All schedules of a method are stretched alike, tuning and correction too, and within each warm-up
and milestones stay at the same fractions, so that rates fall as they did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from remnant.config import RunConfig
from remnant.methods import MethodConfig
from remnant.phases import OptimizerConfig, Schedule
from remnant.planning.calibration import one_thread
from remnant.studies.forecast import Measurements
from remnant.studies.study import Equal, Study, StudyScale
from remnant.studies.study_runs import StudyRun, config_of

_SECONDS_PER_KIND = 2.0
_TRIES = 4
_LEAST = 1e-9  # seconds or FLOPs; a method may cost nothing that is counted


def equal_epochs(
    study: Study, scale: StudyScale, runs: Sequence[StudyRun], equal: Equal
) -> dict[str, int]:
    """Epochs of every run by name, such that it costs what the study's first row does there.

    They are those of its first task; `with_epochs` stretches the rest with them. Costs agree as
    nearly as whole epochs allow. Seconds are measured on this machine, so they are chosen once and
    then kept with the study.
    """
    measured = Measurements(_SECONDS_PER_KIND)

    def cost_of(config: RunConfig) -> Callable[[int], float]:
        """The cost by epochs; a stretched run is as fast as it was."""
        speed = measured.speed(config) if equal == "seconds" else 1.0
        return lambda epochs: measured.flops(stretched(config, epochs)) / speed

    references: dict[str, float] = {}
    found = {}
    with one_thread():
        for run in runs:
            if run.column not in references:
                config = config_of(study.rows[0], study.column(scale, run.column), scale)
                assert config is not None, "the first row of a study runs in every column"
                references[run.column] = cost_of(config)(config.method.first.epochs)
            cost = cost_of(run.config)
            epochs = run.config.method.first.epochs
            found[run.name] = _fitting_epochs(epochs, cost, references[run.column])
    return found


def _fitting_epochs(epochs: int, cost: Callable[[int], float], wanted: float) -> int:
    """The number of epochs whose cost is nearest to what is wanted, sought from `epochs` on.

    A part of the cost does not depend on epochs: two tries give the line on which a third lies.
    """
    costs = {epochs: cost(epochs)}
    guess = _whole(epochs * wanted / max(costs[epochs], _LEAST))
    while guess not in costs and len(costs) < _TRIES:
        before, costs[guess] = next(reversed(costs)), cost(guess)
        slope = (costs[guess] - costs[before]) / (guess - before)
        if slope <= 0:
            break
        guess = _whole(guess + (wanted - costs[guess]) / slope)
    return min(costs, key=lambda one: abs(costs[one] - wanted))


def with_epochs(runs: Sequence[StudyRun], epochs: Mapping[str, int]) -> list[StudyRun]:
    """The runs with the epochs of `equal_epochs`, under names that tell them where they differ."""
    changed = []
    for run in runs:
        before = run.config.method.first.epochs
        wanted = epochs.get(run.name, before)
        if wanted != before:
            config = stretched(run.config, wanted)
            run = replace(run, name=f"{run.name}-{wanted}-epochs", config=config)
        changed.append(run)
    return changed


def stretched(config: RunConfig, epochs: int) -> RunConfig:
    """The run over so many epochs of its first task, all that it does in epochs in proportion."""
    factor = epochs / config.method.first.epochs
    return config.model_copy(update={"method": _stretched_method(config.method, factor)})


def _stretched_method(config: MethodConfig, factor: float) -> MethodConfig:
    return config.model_copy(
        update={name: _stretched_value(name, value, factor) for name, value in config}
    )


def _stretched_value(name: str, value: Any, factor: float) -> Any:
    if isinstance(value, Schedule):
        return value.stretched(_whole(value.epochs * factor))
    if isinstance(value, OptimizerConfig):
        return value.stretched(factor)
    if isinstance(value, MethodConfig):  # that another one wraps
        return _stretched_method(value, factor)
    if isinstance(value, int) and name.endswith("_epochs"):
        return _whole(value * factor)
    return value


def _whole(epochs: float) -> int:
    return max(1, round(epochs))
