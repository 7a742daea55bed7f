"""The figures of a study, drawn from its run folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from remnant.errors import InputError
from remnant.reports.charts.canvas import MARKERS, SERIES, put_legend_above, render
from remnant.reports.charts.system_charts import curves_chart, density_chart, has_density
from remnant.reports.groups import RunGroup
from remnant.reports.sheets.paper_sheets import (
    detail_figure,
    reconstructions_caption,
    reconstructions_figure,
)
from remnant.runs.run_folder import FIGURES as FIGURES_FOLDER
from remnant.runs.run_folder import MEMORY_PICTURE
from remnant.studies.evidence import Evidence
from remnant.studies.study import LAST, Column, Metric


@dataclass(frozen=True)
class Figure:
    """A picture with its words: a drawing (SVG) or a sheet of images (PNG)."""

    name: str
    title: str
    caption: str
    svg: str | None = None
    png: bytes | None = None


def draw_figures(evidence: Evidence) -> list[Figure]:
    """All figures that the finished runs allow."""
    drawn = _over_columns(evidence) if "budgets" in evidence.study.figures else []
    for name in evidence.study.figures:
        for column in evidence.columns:
            groups = groups_of(evidence, column)
            if groups and name in FIGURES:
                drawn += FIGURES[name](evidence, column, groups)
    return drawn


def groups_of(evidence: Evidence, column: Column) -> list[RunGroup]:
    """The runs of each row under a column."""
    cells = [evidence.cells[row.name, column.name] for row in evidence.rows]
    return [RunGroup(cell.row.label, tuple(cell.runs.values())) for cell in cells if cell.runs]


def _curves(evidence: Evidence, column: Column, groups: list[RunGroup]) -> list[Figure]:
    if all(len(group.curve()[0]) < 2 for group in groups):
        return []
    caption = "On all classes seen so far, after each task."
    if any(len(group.runs) > 1 for group in groups):
        caption += " Lines are means, bands one standard deviation over seeds."
    # At other scales printed ends would stand beside curves of another experiment.
    printed = {
        row.label: value
        for row in evidence.rows
        if evidence.scale == "paper"
        and (value := evidence.cells[row.name, column.name].printed(LAST)) is not None
    }
    title = f"Accuracy over the stream, {column.title}"
    return [Figure(f"curves-{column.name}", title, caption, curves_chart(groups, printed))]


def _series(evidence: Evidence, column: Column, groups: list[RunGroup]) -> list[Figure]:
    """Two numbers of every row, as lines over the rows; one row is no line."""
    if len(groups) < 2:
        return []
    metrics = [metric for metric in evidence.study.metrics if metric.is_accuracy][:2]

    def draw(axes: Axes) -> None:
        for index, metric in enumerate(metrics):
            values = [_mean(group, metric) for group in groups]
            color, marker = SERIES[index], MARKERS[index]
            axes.plot(values, color=color, marker=marker, label=metric.title)
        axes.set_xticks(range(len(groups)), [group.label for group in groups])
        axes.set_ylabel("accuracy (%)")
        axes.legend(frameon=False)

    title = f"{evidence.study.title}, {column.title}"
    return [Figure(f"series-{column.name}", title, "In percent.", render(draw, 3.0))]


def _mean(group: RunGroup, metric: Metric) -> float:
    spread = group.spread(lambda run: metric.measured(run.result))
    return float("nan") if spread is None else spread.mean


def _over_columns(evidence: Evidence) -> list[Figure]:
    """Accuracy at the end over the columns, a line per row: accuracy against budgets."""
    titles = [column.title for column in evidence.columns]
    lines = {
        row.label: [_at(evidence, row.name, column.name) for column in evidence.columns]
        for row in evidence.rows
    }
    known = {label: values for label, values in lines.items() if np.isfinite(values).any()}
    if not known:
        return []

    def draw(axes: Axes) -> None:
        for index, (label, values) in enumerate(known.items()):
            color, marker = SERIES[index % len(SERIES)], MARKERS[index % len(MARKERS)]
            style = "-" if index < len(SERIES) else "--"
            axes.plot(values, style, color=color, marker=marker, label=label)
        axes.set_xticks(range(len(titles)), [title.removesuffix(" per class") for title in titles])
        axes.set(xlabel="memory per class", ylabel="accuracy at the end (%)")
        put_legend_above(axes, columns=1)

    caption = f"After the last task, on all classes.{_seeds_text(evidence)}"
    height = 3.0 + 0.19 * len(known)
    return [Figure("budgets", evidence.study.title, caption, render(draw, height))]


def _seeds_text(evidence: Evidence) -> str:
    """A warning where systems have not run with the same seeds, which may have other classes."""
    seeds = {frozenset(cell.runs) for cell in evidence.cells.values() if cell.runs}
    if len(seeds) < 2:
        return ""
    return " Each point is the mean of its own runs, not all with the same seeds: see the table."


def _at(evidence: Evidence, row: str, column: str) -> float:
    spread = evidence.cells[row, column].measured(LAST)
    return float("nan") if spread is None else spread.mean


def _density(_: Evidence, column: Column, groups: list[RunGroup]) -> list[Figure]:
    if not any(has_density(group) for group in groups):
        return []
    title = f"Density of the features, {column.title}"
    caption = "Left: π, after the last task. Right: the two similarities that it divides."
    return [Figure(f"density-{column.name}", title, caption, density_chart(groups))]


def _reconstructions(_: Evidence, column: Column, groups: list[RunGroup]) -> list[Figure]:
    folder = groups[0].first.path
    title = f"Images redrawn as tasks go by, {column.title}"
    try:
        caption, png = reconstructions_caption(folder), reconstructions_figure(folder)
    except (InputError, IndexError):  # folders kept without their pictures
        return []
    return [Figure(f"reconstructions-{column.name}", title, caption, png=png)]


def _detail_example(_: Evidence, column: Column, groups: list[RunGroup]) -> list[Figure]:
    title = f"What the detail branch is to draw, {column.title}"
    caption = (
        "x1 and x2 are drawn from few and from many patches. Their difference and its high "
        "frequencies are shown around grey, three times as strong."
    )
    try:
        png = detail_figure(groups[0].first.path)
    except InputError:
        return []
    return [Figure(f"detail-{column.name}", title, caption, png=png)]


def _memory(_: Evidence, column: Column, groups: list[RunGroup]) -> list[Figure]:
    """What each row that keeps exemplars remembers, one sheet each."""
    drawn = []
    for index, group in enumerate(groups):
        path = group.first.path / FIGURES_FOLDER / MEMORY_PICTURE
        if path.is_file():
            title = f"What {group.label} remembers, {column.title}"
            caption = "Exemplars of every class as they are stored, best first."
            name = f"memory-{column.name}-{index}"
            drawn.append(Figure(name, title, caption, png=path.read_bytes()))
    return drawn


FIGURES: dict[str, Callable[[Evidence, Column, list[RunGroup]], list[Figure]]] = {
    "curves": _curves,
    "series": _series,
    "density": _density,
    "reconstructions": _reconstructions,
    "detail-example": _detail_example,
    "memory": _memory,
}
