"""Square heat maps of a run: its accuracy matrix and its confusions.

A cell that is smaller than a point of the screen shows nothing. Confusions of many classes are
therefore added up: those of a task together, or of neighbours in the order of learning.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from remnant.reports.charts.canvas import SHADES, as_label, ink_on
from remnant.runs.run_folder import RunFolder

MAX_NUMBERED = 12  # parts of a chart that still have room for a number
MAX_CLASSES = 120  # with a row of their own
_MAX_GROUPS = 60
_MAX_VECTOR = 30  # rows of a grid that is drawn as shapes and not as one picture


def draw_matrix(axes: Axes, run: RunFolder) -> None:
    """Accuracy on every task after every task."""
    matrix = run.result.accuracy_matrix
    values = np.full((len(matrix), len(matrix)), np.nan)
    for index, row in enumerate(matrix):
        values[index, : len(row)] = row
    _draw_grid(axes, values, "accuracy (%)")
    axes.set(xlabel="accuracy on task", ylabel="after task")
    _number_from_one(axes)


def draw_confusion(axes: Axes, run: RunFolder) -> None:
    """What the classes are taken for; thin lines part the tasks. Many classes are grouped."""
    labels, predicted = _guesses(run)
    num_classes = int(max(predicted.max(), labels.max())) + 1
    if num_classes > MAX_CLASSES:
        ends, what = group_classes(num_classes, run.classes_seen)
        values = _confusion(*(np.searchsorted(ends, one, "right") for one in (labels, predicted)))
        _draw_grid(axes, values, f"share of the {what} (%)", has_zeros=False)
        axes.set(xlabel=f"predicted {what}", ylabel=f"true {what}")
        _number_from_one(axes)
        return
    values = _confusion(labels, predicted)
    _draw_grid(axes, values, "share of the class (%)", has_zeros=False)
    axes.set(xlabel="predicted class", ylabel="true class")
    short = (name if len(name) <= 12 else name[:11] + "…" for name in run.result.class_names)
    names = [as_label(name) for name in short]
    if len(values) <= MAX_NUMBERED and len(names) >= len(values):
        ticks = range(len(values))
        is_long = max(map(len, names)) > 2
        axes.set_xticks(ticks, names[: len(values)], rotation=45 if is_long else 0,
                        ha="right" if is_long else "center", rotation_mode="anchor")  # fmt: skip
        axes.set_yticks(ticks, names[: len(values)])
    for boundary in run.classes_seen[:-1]:
        if len(run.classes_seen) <= 20:
            axes.axhline(boundary - 0.5, color="white", linewidth=0.7, alpha=0.7)
            axes.axvline(boundary - 0.5, color="white", linewidth=0.7, alpha=0.7)


def _number_from_one(axes: Axes) -> None:
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=12, integer=True, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(lambda value, _: f"{value + 1:.0f}")


def group_classes(num_classes: int, classes_seen: list[int]) -> tuple[list[int], str]:
    """Where the groups of classes end, and what a group is."""
    is_by_task = bool(classes_seen) and classes_seen[-1] == num_classes
    if is_by_task and 1 < len(classes_seen) <= _MAX_GROUPS:
        return classes_seen, "task"
    size = -(-num_classes // _MAX_GROUPS)
    return [*range(size, num_classes, size), num_classes], f"group of {size} classes"


def _guesses(run: RunFolder) -> tuple[np.ndarray, np.ndarray]:
    """Label and prediction of every test image that was taken for some class."""
    predictions = run.predictions()
    assert predictions is not None, "the chart applies only to runs with predictions"
    predicted, labels = predictions
    return labels[predicted >= 0], predicted[predicted >= 0]


def _confusion(labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Percent of the images of each label (rows) that were taken for each label."""
    size = int(max(predicted.max(), labels.max())) + 1
    counts = np.zeros((size, size))
    np.add.at(counts, (labels, predicted), 1)
    return 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


def _draw_grid(axes: Axes, values: np.ndarray, label: str, has_zeros: bool = True) -> None:
    """A square heat map from 0 to 100 with the first row on top; NaN cells stay empty."""
    axes.grid(False)
    size = len(values)
    if size <= _MAX_VECTOR:
        edges = np.arange(size + 1) - 0.5
        shades = axes.pcolormesh(
            edges, edges, values, cmap=SHADES, vmin=0, vmax=100, edgecolors="face", linewidth=0.3
        )
        axes.invert_yaxis()
    else:
        shades = axes.imshow(values, cmap=SHADES, vmin=0, vmax=100, interpolation="nearest")
    axes.set_aspect("equal")
    for spine in axes.spines.values():
        spine.set_visible(False)
    if size <= MAX_NUMBERED:
        for (row, column), value in np.ndenumerate(values):
            if not np.isnan(value) and (has_zeros or round(value)):
                axes.text(
                    column, row, f"{value:.0f}", ha="center", va="center",
                    color=ink_on(value / 100), fontsize=8.5 if size <= 10 else 7.5,
                )  # fmt: skip
    bar = axes.figure.colorbar(shades, ax=axes, label=label, shrink=0.85, aspect=24, pad=0.02)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
