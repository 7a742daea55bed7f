"""How well the single classes of a run are known, where they are too many to be named."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from remnant.reports.charts.canvas import SERIES, put_legend_above
from remnant.reports.charts.heatmaps import MAX_CLASSES, group_classes
from remnant.runs.run_folder import RunFolder


def has_many_classes(run: RunFolder) -> bool:
    predictions = run.predictions()
    return predictions is not None and len(np.unique(predictions[1])) > MAX_CLASSES


def draw_classes(axes: Axes, run: RunFolder) -> None:
    """The accuracy of the classes of each task: the worst, quarters and middle, the best."""
    accuracies = class_accuracies(run)
    ends, what = group_classes(len(accuracies), run.classes_seen)
    groups = np.split(accuracies, ends[:-1])
    parts = np.array([np.nanpercentile(group, (0, 25, 50, 75, 100)) for group in groups])
    places = np.arange(1, len(groups) + 1)
    axes.fill_between(
        places, parts[:, 0], parts[:, 4], color=SERIES[0], alpha=0.15, label="all", linewidth=0
    )
    axes.fill_between(
        places, parts[:, 1], parts[:, 3], color=SERIES[0], alpha=0.35, label="middle half",
        linewidth=0,
    )  # fmt: skip
    axes.plot(places, parts[:, 2], color=SERIES[0], label="middle", linewidth=1.8)
    axes.set(xlabel=what, ylabel="accuracy of a class (%)", ylim=(-3, 103))
    put_legend_above(axes, columns=3)


def class_accuracies(run: RunFolder) -> np.ndarray:
    """Percent of the test images of each class that were recognised; NaN where there are none."""
    predictions = run.predictions()
    assert predictions is not None, "the chart applies only to runs with predictions"
    predicted, labels = predictions
    totals = np.bincount(labels)
    right = np.bincount(labels[predicted == labels], minlength=len(totals))
    return np.where(totals > 0, 100 * right / np.maximum(totals, 1), np.nan)
