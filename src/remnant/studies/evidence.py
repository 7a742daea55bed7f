"""What the runs of a study show: cells of its table, differences with intervals, and verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from remnant.data import DATASETS, DataConfig, describe_dataset
from remnant.recipes import PRESETS, Published
from remnant.reports.groups import Spread, spread_of
from remnant.runs.run_folder import RunFolder, read_run
from remnant.studies.study import Claim, Column, Metric, Row, Study, StudyScale
from remnant.studies.study_runs import StudyRun

Verdict = Literal["agrees", "opposite", "undecided", "not run"]
_WORST_FIRST: list[Verdict] = ["opposite", "undecided", "agrees"]
PAPER = "[bimae]"  # whose printed numbers a study is about
_NORMAL_95 = 1.96


@dataclass(frozen=True)
class Cell:
    """A row under a column: its finished runs, and what was printed."""

    row: Row
    column: Column
    runs: dict[int, RunFolder]  # by seed
    published: tuple[Published, ...]

    def value(self, metric: Metric, seed: int) -> float | None:
        return metric.measured(self.runs[seed].result)

    def measured(self, metric: Metric) -> Spread | None:
        values = [self.value(metric, seed) for seed in self.runs]
        known = [value for value in values if value is not None]
        return spread_of(known) if known else None

    def printed(self, metric: Metric) -> float | None:
        rows = (row for row in self.published if row.top == metric.top)
        return next((value for row in rows if (value := metric.printed(row)) is not None), None)


@dataclass(frozen=True)
class Difference:
    """By how much one cell is ahead of another, over the seeds that both have."""

    mean: float
    margin: float | None  # half of the 95 % interval; None: unknown
    count: int
    is_over_images: bool  # one run each: the interval covers the choice of test images alone

    @property
    def low(self) -> float:
        return self.mean - (math.inf if self.margin is None else self.margin)

    @property
    def high(self) -> float:
        return self.mean + (math.inf if self.margin is None else self.margin)


@dataclass(frozen=True)
class Judgement:
    """A claim under one column."""

    claim: Claim
    column: Column
    rival: str  # label of the row it is compared with
    printed: float | None  # difference
    measured: Difference | None
    verdict: Verdict


class Evidence:
    """The table of a study as far as its runs go."""

    def __init__(
        self,
        study: Study,
        scale: StudyScale,
        runs: Sequence[StudyRun],
        folder: Path,
        read: Callable[[Path], RunFolder] = read_run,
    ):
        self.study = study
        self._read = read
        self.scale = scale
        used_columns = {run.column for run in runs}
        used_rows = {run.row for run in runs} | {row.name for row in study.rows if not row.preset}
        self.rows = tuple(row for row in study.rows if row.name in used_rows)
        self.columns = tuple(
            column for column in study.columns_at(scale) if column.name in used_columns
        )
        self.unfinished = [run.name for run in runs if not run.is_done(folder)]
        done = [run for run in runs if run.name not in self.unfinished]
        self._folders = {(run.row, run.column, run.seed): folder / run.name for run in done}
        self.cells = {
            (row.name, column.name): self._cell(row, column)
            for row in self.rows
            for column in self.columns
        }

    def _cell(self, row: Row, column: Column) -> Cell:
        runs = {
            seed: self._read(path)
            for (of_row, of_column, seed), path in self._folders.items()
            if (of_row, of_column) == (row.name, column.name)
        }
        return Cell(row, column, runs, _published(row, column))

    @property
    def runs(self) -> list[RunFolder]:
        """All finished runs, each once, in the order of the table."""
        found = {run.path: run for cell in self.cells.values() for run in cell.runs.values()}
        return list(found.values())

    def judgements(self) -> list[Judgement]:
        """Every claim under every column that it is about."""
        known = {row.name for row in self.rows}
        return [
            self._judge(claim, column)
            for claim in self.study.claims
            if claim.row in known and (not claim.against or claim.against in known)
            for column in self.columns
            if not claim.columns or column.name in claim.columns
        ]

    def _judge(self, claim: Claim, column: Column) -> Judgement:
        cell = self.cells[claim.row, column.name]
        printed = printed_gap(self.study, claim, column)
        # "All others" are those of the study, asked for or not: some of them alone decide nothing.
        names = [row.name for row in rivals_of(self.study, claim) if row.preset]
        have_run = [self.cells.get((name, column.name)) for name in names]
        rival = None
        if have_run and all(one is not None for one in have_run):
            rival = _hardest(cell, [one for one in have_run if one is not None], claim)
        if rival is None or not cell.runs:
            label = self.study.row(claim.against).label if claim.against else "all others"
            return Judgement(claim, column, label, printed, None, "not run")
        measured = difference(cell, rival, claim.metric)
        verdict = judge(measured, claim.margin) if measured else "not run"
        return Judgement(claim, column, rival.row.label, printed, measured, verdict)


def rivals_of(study: Study, claim: Claim) -> list[Row]:
    """The rows that a claim is about beside its own."""
    if claim.against:
        return [study.row(claim.against)]
    return [row for row in study.rows if row.is_rival and row.name != claim.row]


def printed_gap(study: Study, claim: Claim, column: Column) -> float | None:
    """By how much the claim's row is ahead of its nearest rival in what was printed."""
    sign = -1.0 if claim.metric.is_lower_better else 1.0
    own = _printed(study.row(claim.row), column, claim.metric)
    others = [_printed(row, column, claim.metric) for row in rivals_of(study, claim)]
    known = [value for value in others if value is not None]
    return None if own is None or not known else min(sign * (own - value) for value in known)


def judge(measured: Difference, margin: float = 0.0) -> Verdict:
    """What an interval says of the claim that the difference is above `margin`."""
    if measured.low > margin:
        return "agrees"
    return "opposite" if measured.high < margin else "undecided"


def difference(
    cell: Cell, rival: Cell, metric: Metric, *, shares_images: bool = False
) -> Difference | None:
    """By how much `cell` is ahead, paired by seed; None where no seed has run in both.

    Args:
        shares_images: All seeds have the same test images, whose chance more seeds cannot average
            out: the interval is then at least that of one pair.
    """
    sign = -1.0 if metric.is_lower_better else 1.0
    pairs = {
        seed: (one, other)
        for seed in cell.runs
        if seed in rival.runs
        and (one := cell.value(metric, seed)) is not None
        and (other := rival.value(metric, seed)) is not None
    }
    if not pairs:
        return None
    gaps = [sign * (one - other) for one, other in pairs.values()]
    mean, count = float(np.mean(gaps)), len(gaps)
    if count > 1:
        deviation = float(np.std(gaps, ddof=1))
        margin = float(stdtrit(count - 1, 0.975)) * deviation / math.sqrt(count)
        if shares_images:
            both = [(cell.runs[seed], rival.runs[seed]) for seed in pairs]
            margin = max([margin, *filter(None, (_image_margin(one, metric) for one in both))])
        return Difference(mean, margin, count, False)
    (seed,) = pairs
    margin = _image_margin((cell.runs[seed], rival.runs[seed]), metric)
    return Difference(mean, margin, 1, True)


def _image_margin(pair: Sequence[RunFolder], metric: Metric) -> float | None:
    """Half of the interval that comes from the number of test images, for one run each."""
    squares = []
    for run in pair:
        images = _test_images_per_task(run)
        error = metric.error(run.result, images) if images else None
        if error is None:
            return None
        squares.append(error**2)
    return _NORMAL_95 * math.sqrt(sum(squares))


def _test_images_per_task(run: RunFolder) -> list[int]:
    """Number of test images of each task's classes; empty if unknown."""
    sizes = run.result.task_sizes
    predicted = run.predictions()
    if predicted is not None:
        tasks = np.searchsorted(np.cumsum(sizes), predicted[1], side="right")
        return np.bincount(tasks, minlength=len(sizes)).tolist()
    data = DataConfig.parse(run.config["data"])
    if DATASETS[data.dataset].needs_path:
        return []
    per_class = describe_dataset(data).test_per_class
    return [per_class * size for size in sizes]


def _hardest(cell: Cell, rivals: Sequence[Cell], claim: Claim) -> Cell | None:
    """The rival that decides whether `cell` is first; None while one cannot be compared.

    A claim about all others holds if it holds against each of them: of those with the worst verdict
    the one over which `cell` is least ahead. Over the seeds that both have: seeds can have classes
    of their own, some easier than others, so that means over different seeds say nothing.
    """
    gaps = [difference(cell, rival, claim.metric) for rival in rivals]
    known = [
        (_WORST_FIRST.index(judge(gap, claim.margin)), gap.mean, index)
        for index, gap in enumerate(gaps)
        if gap is not None
    ]
    return rivals[min(known)[2]] if known and len(known) == len(rivals) else None


def _printed(row: Row, column: Column, metric: Metric) -> float | None:
    return Cell(row, column, {}, _published(row, column)).printed(metric)


def _published(row: Row, column: Column) -> tuple[Published, ...]:
    """What the paper prints for a row, taken from its preset at the paper's scale."""
    if not column.printed:
        return ()
    preset = row.paper or row.preset
    known = row.printed
    if known is None:
        known = PRESETS[preset].published if preset in PRESETS else ()
    return tuple(
        one for one in known if one.protocol == column.printed and one.source.startswith(PAPER)
    )
