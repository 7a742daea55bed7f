"""Figures over several systems, each named by the caller and given as its run folders.

Charts are SVG text that takes its ink from the page around it; `on_white` makes a file of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from remnant.errors import InputError
from remnant.reports.charts.system_charts import curves_chart, density_chart, has_density
from remnant.reports.groups import RunGroup
from remnant.runs.run_folder import find_runs, read_run

Systems = Mapping[str, Sequence[Path]]  # by name: folders of its runs, over seeds or class orders


def curves_figure(systems: Systems, printed: Mapping[str, float] | None = None) -> str:
    """Accuracy after each task, a line per system: the mean of its runs and a band of a deviation.

    Args:
        printed: By name of a system, the last accuracy that a paper prints, on the same stream.

    Raises:
        InputError: A folder holds no run, a system has no finished one, or its runs differ in how
            many classes their tasks have.
    """
    return curves_chart(_read(systems), printed)


def density_figure(systems: Systems) -> str:
    """Feature density after the last task, a row per system: pi, intra and inter.

    Raises:
        InputError: As `curves_figure`, or no run has a density.
    """
    groups = _read(systems)
    if not any(has_density(group) for group in groups):
        raise InputError(
            "a picture of feature density needs a run that measured it; none of these did. Run "
            "them again: a finished run has it in its result.json."
        )
    return density_chart(groups)


def _read(systems: Systems) -> list[RunGroup]:
    groups = []
    for name, folders in systems.items():
        runs = [run for folder in find_runs(folders) if (run := read_run(folder)).result.finished]
        if not runs:
            raise InputError(
                f"{name} must have a finished run; it has none. Finish one with remnant resume DIR."
            )
        if len({tuple(run.result.task_sizes) for run in runs}) > 1:
            raise InputError(
                f"the runs of {name} must have tasks of the same sizes, or their mean says "
                "nothing; they differ. Leave some out."
            )
        groups.append(RunGroup(name, tuple(runs)))
    if not groups:
        raise InputError("a figure needs at least one system with a run folder; got none.")
    return groups
