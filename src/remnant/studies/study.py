"""A study: systems in rows, settings in columns, what was printed, and what is claimed of them.

A study is data: one file beside this one. How it is carried out stands in `study_runs`, what its
runs show in `evidence`, how that looks in `study_page`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from remnant.errors import InputError, nearest
from remnant.recipes import Published
from remnant.runs.run_folder import RunResult
from remnant.studies.image_errors import (
    forgetting_error,
    mean_error,
    newest_error,
    share_error,
)

StudyScale = Literal["smoke", "mini", "lite", "paper"]
Equal = Literal["steps", "flops", "seconds"]


@dataclass(frozen=True)
class Metric:
    """A number of a run, and the same number as somebody printed it."""

    name: str
    title: str
    measured: Callable[[RunResult], float | None]
    printed: Callable[[Published], float | None] = lambda _: None
    is_lower_better: bool = False
    top: int = 1  # 5: what is printed under top-5 accuracy
    is_accuracy: bool = True  # in percent
    # Standard error of one run, from the number of test images of each task; None: not known.
    error: Callable[[RunResult, Sequence[int]], float | None] = lambda *_: None


AVG = Metric(
    "avg",
    "Avg",
    lambda result: result.average_accuracy,
    lambda row: row.avg,
    error=lambda result, images: mean_error(result.accuracies, images),
)
LAST = Metric(
    "last",
    "Last",
    lambda result: result.last_accuracy,
    lambda row: row.last,
    error=lambda result, images: share_error(result.last_accuracy or 0.0, sum(images)),
)
FORGETTING = Metric(
    "forgetting",
    "F",
    lambda result: result.forgetting,
    lambda row: row.forgetting,
    is_lower_better=True,
    error=forgetting_error,
)
NEWEST = Metric("newest", "Newest", lambda result: result.newest, error=newest_error)
TOP5_AVG = Metric(
    "top5-avg",
    "Top-5 Avg",
    lambda result: result.top5_average,
    lambda row: row.avg,
    top=5,
    error=lambda result, images: mean_error(result.top5_accuracies, images),
)
TOP5_LAST = Metric(
    "top5-last",
    "Top-5 Last",
    lambda result: result.top5_last,
    lambda row: row.last,
    top=5,
    error=lambda result, images: share_error(result.top5_last or 0.0, sum(images)),
)
MILLIONS = Metric(
    "parameters",
    "Parameters (M)",
    lambda result: None if result.parameters is None else result.parameters / 1e6,
    lambda row: row.parameters,
    is_lower_better=True,
    is_accuracy=False,
)
TFLOP = Metric(
    "tflop",
    "TFLOP",
    lambda result: None if result.train_flops is None else result.train_flops / 1e12,
    is_lower_better=True,
    is_accuracy=False,
)
DENSITY = Metric("density", "π", lambda result: (result.density or {}).get("pi"), is_accuracy=False)


def _kept(name: str, title: str, parts: Callable[[str], bool]) -> Metric:
    """Kilobytes of some parts of what is carried from task to task; see `methods.kept_bytes`."""

    def measured(result: RunResult) -> float | None:
        kept = result.kept_bytes
        return sum(kept[part] for part in kept if parts(part)) / 1e3 if kept else None

    return Metric(name, title, measured, is_lower_better=True, is_accuracy=False)


MEMORY_KB = _kept("memory", "Memory (KB)", lambda part: part == "memory")
BESIDE_KB = _kept("beside", "Other state (KB)", lambda part: part not in ("memory", "network"))
NETWORK_KB = _kept("network", "Network (KB)", lambda part: part == "network")
LEDGER = (MEMORY_KB, BESIDE_KB, NETWORK_KB)  # all bytes that a method carries


@dataclass(frozen=True)
class Row:
    """A system: a preset, and what is changed of it."""

    name: str  # in --rows and in names of folders
    label: str  # on the page
    preset: str  # "": not in remnant; printed numbers stand alone
    paper: str = ""  # the preset at the paper's scale, where that is another
    changes: Mapping[str, Any] = field(default_factory=dict)
    printed: tuple[Published, ...] | None = None  # None: those of the preset
    against: str = ""  # the row to which its difference is shown; "": none
    is_rival: bool = True  # counts among "all others"
    short: str = ""  # its name beside a difference to it; "": the label

    def preset_at(self, scale: StudyScale) -> str:
        return self.paper if scale == "paper" and self.paper else self.preset


@dataclass(frozen=True)
class Column:
    """A setting under which every row runs."""

    name: str  # in --columns and in names of folders
    title: str
    protocol: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    printed: str = ""  # the protocol whose printed numbers stand beside; "": none


@dataclass(frozen=True)
class Claim:
    """That a row is ahead of another by more than `margin` points of a metric."""

    text: str
    row: str
    against: str  # "": the best of all others
    metric: Metric = LAST
    margin: float = 0.0  # below 0: is behind by less than so much
    columns: tuple[str, ...] = ()  # of its printed numbers and its runs; (): all


@dataclass(frozen=True)
class Study:
    """A table or a figure as something that runs."""

    name: str
    title: str
    source: str  # "Table 1 of the paper"; "": ours
    question: str
    rows: tuple[Row, ...]
    columns: Mapping[StudyScale, tuple[Column, ...]]
    claims: tuple[Claim, ...] = ()
    metrics: tuple[Metric, ...] = (AVG, LAST, FORGETTING)
    figures: tuple[str, ...] = ()  # names of `study_figures.FIGURES`
    equal: Equal = "steps"  # what every row has as much of, unless asked for otherwise
    # Of classes. Seed n takes order n modulo their number, in every row: rows are compared by seed,
    # so that they must share streams, whatever order a method was published with.
    orders: tuple[str, ...] = ("default",)
    note: str = ""
    tells_winner: bool = False  # ends with a sentence on who came out first

    def __post_init__(self) -> None:
        for row in self.rows:
            assert row.against != row.name, f"row {row.name!r} of {self.name} is its own rival"

    def row(self, name: str) -> Row:
        return _find(name, {row.name: row for row in self.rows}, f"{self.name} has no row")

    def columns_at(self, scale: StudyScale) -> tuple[Column, ...]:
        """Raises InputError where the study has no such scale."""
        if scale not in self.columns:
            raise InputError(f"{self.name} has no scale {scale}; it has {', '.join(self.columns)}.")
        return self.columns[scale]

    def column(self, scale: StudyScale, name: str) -> Column:
        known = {column.name: column for column in self.columns_at(scale)}
        return _find(name, known, f"{self.name} has no column at scale {scale}")


def _find(name: str, known: Mapping[str, Any], problem: str) -> Any:
    if name not in known:
        raise InputError(
            f"{problem} named {name!r}; it has {', '.join(known)}.{nearest(name, known)}"
        )
    return known[name]
