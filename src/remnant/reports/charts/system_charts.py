"""Charts that set several systems side by side, each with one run or more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from remnant.reports.charts.canvas import (
    MARKERS,
    SERIES,
    as_label,
    put_legend_above,
    render,
    render_figure,
)
from remnant.reports.charts.run_charts import marker_spacing, set_accuracy_axes
from remnant.reports.groups import RunGroup, Spread
from remnant.runs.run_folder import RunFolder

# ------------------------------------------------------------------------------------------ curves


def curves_chart(groups: Sequence[RunGroup], printed: Mapping[str, float] | None = None) -> str:
    """Accuracy after each task, a line per group; of several runs their mean, and a band.

    Args:
        printed: By label of a group, the accuracy after the last task that a paper prints: a
            hollow mark at the end of the line.
    """
    ends = printed or {}
    height = 3.0 + 0.19 * (len(groups) + bool(ends))  # the legend has a line for each
    return render(lambda axes: _draw_curves(axes, groups, ends), height)


def _draw_curves(axes: Axes, groups: Sequence[RunGroup], printed: Mapping[str, float]) -> None:
    for index, group in enumerate(groups):
        seen, spreads = group.curve()
        color, marker = SERIES[index % len(SERIES)], MARKERS[index % len(MARKERS)]
        means = np.array([spread.mean for spread in spreads])
        style = "-" if index < len(SERIES) else "--"
        axes.plot(seen, means, style, color=color, marker=marker, label=as_label(group.label),
                  markevery=marker_spacing(seen))  # fmt: skip
        if len(group.runs) > 1:
            deviations = np.array([spread.deviation or 0.0 for spread in spreads])
            band = means - deviations, means + deviations
            axes.fill_between(seen, *band, color=color, alpha=0.2, linewidth=0)
        if group.label in printed:
            axes.plot(sum(group.first.result.task_sizes), printed[group.label], marker,
                      color=color, markerfacecolor="none", markersize=8)  # fmt: skip
    if printed:
        axes.plot([], [], "o", color=SERIES[-1], markerfacecolor="none", markersize=8,
                  label="hollow: reported, after the last task")  # fmt: skip
    set_accuracy_axes(axes, sorted({count for group in groups for count in group.curve()[0]}))
    put_legend_above(axes, columns=1)


# ----------------------------------------------------------------------------------------- density


def density_chart(groups: Sequence[RunGroup]) -> str:
    """How dense features lie after the last task: pi, and the two similarities that it divides.

    A mark is the mean over the runs of a group, a line through it one deviation to each side.
    Groups without a density on file are left out; there must be one with it.
    """
    shown = [group for group in groups if has_density(group)]
    assert shown, "no group has a density"
    return render_figure(lambda figure: _draw_density(figure, shown), 1.2 + 0.3 * len(shown))


def has_density(group: RunGroup) -> bool:
    return _density(group, "pi") is not None


def _density(group: RunGroup, name: str) -> Spread | None:
    def value(run: RunFolder) -> float | None:
        return (run.result.density or {}).get(name)

    return group.spread(value)


def _draw_density(figure: Figure, groups: Sequence[RunGroup]) -> None:
    ratio, terms = figure.subplots(1, 2, sharey=True)
    for place, group in enumerate(groups):
        _draw_mark(ratio, place, _density(group, "pi"), 0, is_named=True)
        _draw_mark(terms, place, _density(group, "intra"), 1)
        _draw_mark(terms, place, _density(group, "inter"), 2)
    ratio.set_yticks(range(len(groups)), [as_label(group.label) for group in groups])
    ratio.set(xlabel="π: intra / inter", ylim=(len(groups) - 0.5, -0.5))
    ratio.margins(x=0.3)  # room for the numbers
    terms.set(xlabel="cosine")
    for index, name in ((1, "intra: in a class"), (2, "inter: between classes")):
        terms.plot([], [], MARKERS[index], color=SERIES[index], label=name)
    put_legend_above(terms, columns=2)


def _draw_mark(
    axes: Axes, place: int, spread: Spread | None, index: int, *, is_named: bool = False
) -> None:
    if spread is None:
        return
    axes.errorbar(spread.mean, place, xerr=spread.deviation, fmt=MARKERS[index],
                  color=SERIES[index])  # fmt: skip
    if is_named:
        axes.annotate(f"{spread.mean:.2f}", (spread.mean, place), (0, 5), ha="center",
                      textcoords="offset points", fontsize=8.5)  # fmt: skip
