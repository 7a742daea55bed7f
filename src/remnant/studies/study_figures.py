"""The figures of a study, drawn from its run folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from remnant.reports.charts.canvas import MARKERS, SERIES, render
from remnant.reports.comparison import curves_chart
from remnant.reports.groups import RunGroup
from remnant.studies.evidence import Evidence
from remnant.studies.study import Column


@dataclass(frozen=True)
class Figure:
    name: str
    title: str
    caption: str
    svg: str


def draw_figures(evidence: Evidence) -> list[Figure]:
    """All figures that the finished runs allow."""
    drawn = []
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


def _curves(_: Evidence, column: Column, groups: list[RunGroup]) -> list[Figure]:
    if all(len(group.curve()[0]) < 2 for group in groups):
        return []
    caption = "On all classes seen so far, after each task."
    if any(len(group.runs) > 1 for group in groups):
        caption += " Lines are means, bands one standard deviation over seeds."
    title = f"Accuracy over the stream, {column.title}"
    return [Figure(f"curves-{column.name}", title, caption, curves_chart(groups))]


def _series(evidence: Evidence, column: Column, groups: list[RunGroup]) -> list[Figure]:
    """The key number of every row, as a line over the rows."""
    metrics = [metric for metric in evidence.study.metrics if metric.is_accuracy][:2]
    labels = [group.label for group in groups]

    def draw(axes: object) -> None:
        for index, metric in enumerate(metrics):
            means = [group.spread(lambda run, m=metric: m.measured(run.result)) for group in groups]
            values = [float("nan") if mean is None else mean.mean for mean in means]
            axes.plot(  # type: ignore[attr-defined]
                range(len(labels)), values, color=SERIES[index], marker=MARKERS[index],
                label=metric.title,
            )  # fmt: skip
        axes.set_xticks(range(len(labels)), labels)  # type: ignore[attr-defined]
        axes.set_ylabel("accuracy in %")  # type: ignore[attr-defined]
        axes.legend(frameon=False)  # type: ignore[attr-defined]

    title = f"{evidence.study.title}, {column.title}"
    return [Figure(f"series-{column.name}", title, "In percent.", render(draw, 3.0))]


FIGURES: dict[str, Callable[[Evidence, Column, list[RunGroup]], list[Figure]]] = {
    "curves": _curves,
    "series": _series,
}
