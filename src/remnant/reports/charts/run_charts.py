"""The charts of one run, drawn into its `figures/` folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from remnant.files import write_text
from remnant.reports.charts.canvas import (
    INK,
    MARKERS,
    SERIES,
    as_label,
    put_legend_above,
    render,
    set_byte_axis,
)
from remnant.reports.charts.class_charts import draw_classes, has_many_classes
from remnant.reports.charts.heatmaps import MAX_NUMBERED, draw_confusion, draw_matrix
from remnant.reports.charts.loss_charts import loss_curves
from remnant.reports.sheets.reconstructions import draw_reconstructions
from remnant.runs.run_folder import FIGURES, RunFolder, read_run


@dataclass(frozen=True)
class Chart:
    """One chart: when a run has it, and how it is drawn."""

    name: str  # of its file
    title: str
    caption: str
    applies: Callable[[RunFolder], bool]
    draw: Callable[[Axes, RunFolder], None]
    height_inches: float = 3.0


def draw_figures(folder: Path) -> list[Path]:
    """Draw every chart that the run has data for; returns the files written."""
    run = read_run(folder)
    paths = []
    for chart in CHARTS:
        path = folder / FIGURES / f"{chart.name}.svg"
        if chart.applies(run):
            write_text(path, _render(chart, run))
            paths.append(path)
        else:
            path.unlink(missing_ok=True)  # of an earlier state of the run
    return paths + draw_reconstructions(folder)


def _render(chart: Chart, run: RunFolder) -> str:
    return render(lambda axes: chart.draw(axes, run), chart.height_inches)


def _draw_curve(axes: Axes, run: RunFolder) -> None:
    seen, matrix = run.classes_seen, run.result.accuracy_matrix
    lines = [("all seen", run.result.accuracies, "-")]
    if len(matrix) == len(seen):
        lines.append(("just learned", [row[-1] for row in matrix], "--"))
        lines.append(("task 1", [row[0] for row in matrix], ":"))
    for index, (label, values, style) in enumerate(lines):
        axes.plot(
            seen, values, style, label=label, color=SERIES[index], marker=MARKERS[index],
            linewidth=2.2 if index == 0 else 1.4, zorder=3 - index / 10,
            markevery=marker_spacing(seen),
        )  # fmt: skip
    set_accuracy_axes(axes, seen)
    put_legend_above(axes, columns=3)


def marker_spacing(points: Sequence[int]) -> int:
    """Which points of a line bear its marker, so that many of them do not become a band."""
    return max(1, round(len(points) / 15))


def set_accuracy_axes(axes: Axes, classes_seen: list[int]) -> None:
    """Accuracy from 0 to 100 over the number of classes seen."""
    axes.set(xlabel="classes seen", ylabel="accuracy (%)", ylim=(-3, 103))
    if len(classes_seen) <= 10:
        axes.set_xticks(classes_seen)


def _draw_forgetting(axes: Axes, run: RunFolder) -> None:
    values = run.result.forgetting_per_task
    tasks = np.arange(1, len(values) + 1)
    axes.bar(tasks, values, color=SERIES[1], width=0.7)
    axes.axhline(0, color=INK, linewidth=0.7)
    if run.result.forgetting is not None:
        axes.axhline(run.result.forgetting, color=SERIES[0], linestyle="--", linewidth=1.4,
                     label=f"mean: {run.result.forgetting:.1f}")  # fmt: skip
        put_legend_above(axes, columns=1)
    axes.set(xlabel="task", ylabel="forgotten (points)")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True, min_n_ticks=1))
    axes.grid(False, axis="x")
    axes.margins(y=0.12)
    if len(values) <= MAX_NUMBERED:
        for task, value in zip(tasks, values, strict=True):
            axes.annotate(
                f"{value:.1f}", (task, value), (0, 3 if value >= 0 else -3), ha="center",
                textcoords="offset points", va="bottom" if value >= 0 else "top", fontsize=8.5,
            )  # fmt: skip


def _draw_losses(axes: Axes, run: RunFolder) -> None:
    curves = loss_curves(run.events)
    for index, (name, (steps, means)) in enumerate(curves.terms.items()):
        style = "-" if index < len(SERIES) else "--"
        color = SERIES[index % len(SERIES)]
        axes.plot(steps, means, style, color=color, label=as_label(name), linewidth=1.3)
    for start in curves.task_starts[1:]:
        axes.axvline(start, color=INK, linewidth=0.7, linestyle=(0, (2, 3)), alpha=0.55)
    finite = np.concatenate([means[~np.isnan(means)] for _, means in curves.terms.values()])
    if finite.min() > 0 and finite.max() / finite.min() > 100:
        axes.set_yscale("log")
    axes.set(xlabel="optimizer step (dotted: a new task begins)", ylabel="loss")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    put_legend_above(axes, columns=3)


def _draw_ledger(axes: Axes, run: RunFolder) -> None:
    memory = run.result.memory
    assert memory is not None, "the chart applies only to runs with a memory"
    left = 0
    for index, (name, size) in enumerate(run.counted_ledger.items()):
        if size:
            axes.barh(0, size, left=left, color=SERIES[index % len(SERIES)], label=name, height=0.8)
            left += size
    budget = memory.budget_bytes
    if budget is not None:
        axes.add_patch(Rectangle((0, -0.4), budget, 0.8, fill=False, edgecolor=INK, linewidth=0.8))
    axes.set(xlim=(0, max(left, budget or 0, 1) * 1.001), yticks=[], ylim=(-0.45, 0.45))
    axes.spines["left"].set_visible(False)
    axes.grid(False)
    set_byte_axis(axes, max(left, budget or 0))
    if budget is not None:
        axes.set_xlabel("the frame is the budget")
    put_legend_above(axes, columns=4)


CHARTS = (
    Chart(
        "accuracy", "Accuracy over the stream",
        "Accuracy on all classes seen so far, after each task; the gap to the classes just learned "
        "is what the older ones lost.",
        lambda run: 1 < run.num_done_tasks == len(run.classes_seen), _draw_curve,
    ),
    Chart(
        "matrix", "Accuracy matrix",
        "Each row is a moment (after a task), each column the test images of one task. Reading "
        "down a column shows how well that task is kept.",
        lambda run: len(run.result.accuracy_matrix) > 1, draw_matrix, 3.6,
    ),
    Chart(
        "forgetting", "Forgetting per task",
        "Best earlier accuracy on a task minus its accuracy at the end; lower is better, and below "
        "zero the task was learned better later.",
        lambda run: len(run.result.forgetting_per_task) > 0, _draw_forgetting,
    ),
    Chart(
        "confusion", "Confusion after the last task",
        "Predicted classes (columns) of the images of each class (rows), in learning order; more "
        "than 120 classes are added up by task or in groups. A bright diagonal is good; bright "
        "right-hand columns are a lean towards new classes.",
        lambda run: run.predictions() is not None, draw_confusion, 3.6,
    ),
    Chart(
        "classes", "Accuracy of single classes",
        "After the last task, for the classes of each task: from the worst to the best, and where "
        "the middle half of them lies.",
        has_many_classes, draw_classes,
    ),
    Chart(
        "losses", "Losses",
        "Weighted loss terms that were minimised, averaged over short stretches of steps.",
        lambda run: bool(loss_curves(run.events).terms), _draw_losses,
    ),
    Chart(
        "ledger", "Bytes of the memory",
        "What fills the replay memory after the last task.",
        lambda run: bool(run.counted_ledger), _draw_ledger, 1.5,
    ),
)  # fmt: skip
