"""Tables of the comparison page beside the results: what differs, and accuracy task by task."""

from __future__ import annotations

from collections.abc import Sequence

from remnant.reports.groups import RunGroup, by_kind, differing_settings
from remnant.reports.result_tables import Table, with_deviation
from remnant.reports.units import MISSING


def settings_table(groups: Sequence[RunGroup]) -> Table:
    """One row per setting in which the groups differ, one column per group.

    Settings that all groups have come first: those of one method alone tell little.
    """
    rows = [
        [name, *(MISSING if value == "null" else value for value in values)]
        for name, values in differing_settings(groups).items()
    ]
    rows.sort(key=lambda row: MISSING in row)
    headers = ["Setting", *(group.label for group in groups)]
    return Table(headers, rows, first_number=len(headers))


def task_tables(groups: Sequence[RunGroup]) -> list[Table]:
    """One for each kind of `by_kind` in which somebody learned more than one task."""
    tables = [_task_table(kind) for kind in by_kind(groups)]
    return [table for table in tables if len(table.headers) > 2]


def _task_table(groups: Sequence[RunGroup]) -> Table:
    """One row per group: accuracy on all classes seen so far, after each task; no cell after."""
    curves = [group.curve()[1] for group in groups]
    length = max(map(len, curves))
    rows = [
        [group.label, *map(with_deviation, curve), *[""] * (length - len(curve))]
        for group, curve in zip(groups, curves, strict=True)
    ]
    return Table(["Method", *(f"Task {n + 1}" for n in range(length))], rows, first_number=1)
