"""Who came out first in a study, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from remnant.reports.units import bytes_text
from remnant.runs.run_folder import MemoryResult
from remnant.studies.evidence import Cell, Difference, Evidence, difference, judge
from remnant.studies.study import LAST, Column


def ranking(evidence: Evidence, column: Column) -> list[Cell]:
    """The rows that have run under a column, best first by accuracy at the end."""
    cells = [evidence.cells[row.name, column.name] for row in evidence.rows]
    known = [(cell, spread.mean) for cell in cells if (spread := cell.measured(LAST)) is not None]
    return [cell for cell, _ in sorted(known, key=lambda pair: -pair[1])]


def verdict(ranked: Sequence[Cell]) -> str:
    """How each ended, what it kept, and whether the first can be told from the second."""
    ends = [f"{cell.row.label} {_last(cell):.1f} % ({_kept(cell)})" for cell in ranked]
    kept = f"At the end, on all classes: {'; '.join(ends)}."
    found = difference(ranked[0], ranked[1], LAST, shares_images=True)
    return kept if found is None else f"{kept} {_first_place(ranked, found)}"


def _first_place(ranked: Sequence[Cell], found: Difference) -> str:
    first, second = (cell.row.label for cell in ranked[:2])
    if judge(found) != "agrees":
        over_seeds = difference(ranked[0], ranked[1], LAST)
        is_clear = over_seeds is not None and over_seeds.count > 1 and judge(over_seeds) == "agrees"
        need = "there are too few test images" if is_clear else "give more --seeds"
        return f"{first} is not safely ahead of {second}: {need} to tell."
    margin = "" if found.margin is None else f" ± {found.margin:.1f}"
    runs = "one run each" if found.count == 1 else f"{found.count} seeds"
    return f"{first} is first, {found.mean:.1f}{margin} points above {second} ({runs})."


def _kept(cell: Cell) -> str:
    """Its exemplars after the last task, on average over its runs."""
    memories = [run.result.memory or MemoryResult() for run in cell.runs.values()]
    count = round(mean(sum(one.exemplars_per_class) for one in memories))
    if count == 0:
        return "no images kept"
    size = bytes_text(mean(one.used_bytes for one in memories))
    return f"{count:,} {'image' if count == 1 else 'images'} kept, {size}"


def _last(cell: Cell) -> float:
    spread = cell.measured(LAST)
    assert spread is not None, "a ranking has measured rows"
    return spread.mean
