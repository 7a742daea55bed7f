"""Accuracy against bytes: of the memory alone, and of all that is kept from task to task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from remnant.reports.charts.canvas import (
    MARKERS,
    SERIES,
    as_label,
    put_legend_above,
    render,
    set_byte_axis,
)
from remnant.reports.groups import RunGroup
from remnant.runs.run_folder import RunFolder

_PARAMETER_BYTES = 4  # float32
_LINE_INCHES = 0.16  # of a name beside its point
_MAX_LABEL = 34  # letters of a name
_LETTER = 0.0155  # its width, of the largest number of bytes shown
_KEPT_HEIGHT_INCHES = 4.6
_ROOM_POINTS = 4  # points of accuracy above and below what is shown


def memory_chart(groups: Sequence[RunGroup]) -> str:
    """SVG: average accuracy against the bytes that the memory used; a legend names the points."""
    return render(lambda axes: draw_memory(axes, groups), 3.0 + 0.19 * len(groups))


def kept_chart(groups: Sequence[RunGroup]) -> str:
    """SVG: average accuracy against memory plus network; names stand beside the points."""
    return render(lambda axes: _draw_kept(axes, groups), _KEPT_HEIGHT_INCHES)


def all_kept_bytes(run: RunFolder) -> int | None:
    """All that is carried from task to task; None where the size of the network is not known."""
    if run.result.kept_bytes:
        return sum(run.result.kept_bytes.values())
    if run.result.parameters is None:
        return None
    # A run of remnant 0.1 does not say what its method kept beside parameters and memory.
    return _memory_bytes(run) + _PARAMETER_BYTES * run.result.parameters


def _memory_bytes(run: RunFolder) -> int:
    return run.result.memory.used_bytes if run.result.memory else 0


def draw_memory(axes: Axes, groups: Sequence[RunGroup]) -> None:
    """One point per group, none of them cut off by an edge."""
    highest, ends = 1.0, []
    for index, group in enumerate(groups):
        used = group.spread(_memory_bytes)
        accuracy = group.spread(lambda run: run.result.average_accuracy)
        if used is not None and accuracy is not None:
            axes.errorbar(
                used.mean, accuracy.mean, yerr=accuracy.deviation, linestyle="none", capsize=3,
                color=SERIES[index % len(SERIES)], marker=MARKERS[index % len(MARKERS)],
                markersize=7, label=as_label(group.label),
            )  # fmt: skip
            highest, deviation = max(highest, used.mean), accuracy.deviation or 0.0
            ends += [accuracy.mean - deviation, accuracy.mean + deviation]
    axes.set(xlabel="bytes used by the memory", ylabel="average accuracy (%)")
    set_byte_axis(axes, highest)
    # After the ticks, which would move them. At equal bytes, the usual case, all points are at the
    # right end; differences of a point or two are not to fill the chart.
    axes.set_xlim(-0.03 * highest, 1.12 * highest)
    if ends:
        axes.set_ylim(min(ends) - _ROOM_POINTS, max(ends) + _ROOM_POINTS)
    put_legend_above(axes, columns=1)


@dataclass(frozen=True)
class _Point:
    label: str
    kept: float
    accuracy: float


def _draw_kept(axes: Axes, groups: Sequence[RunGroup]) -> None:
    points = []
    for group in groups:
        kept = group.spread(all_kept_bytes)
        accuracy = group.spread(lambda run: run.result.average_accuracy)
        if kept is not None and accuracy is not None:
            points.append(_Point(as_label(group.label), kept.mean, accuracy.mean))
    axes.set(xlabel="bytes kept: memory and network", ylabel="average accuracy (%)")
    if not points:
        return
    highest = max(point.kept for point in points)
    lowest, top = min(p.accuracy for p in points), max(p.accuracy for p in points)
    axes.set(xlim=(0, 1.05 * highest), ylim=(lowest - _ROOM_POINTS, top + _ROOM_POINTS))
    set_byte_axis(axes, axes.get_xlim()[1])
    line = (top - lowest + 2 * _ROOM_POINTS) * _LINE_INCHES / (_KEPT_HEIGHT_INCHES - 0.6)
    names = [_place_name(point, highest) for point in points]
    for point, name, height in zip(points, names, _name_heights(points, names, line), strict=True):
        axes.plot(point.kept, point.accuracy, "o", color=SERIES[0], markersize=5)
        note = axes.annotate(
            name.text, (point.kept, point.accuracy), (name.start, height), fontsize=7.5,
            va="center", ha="left" if name.start > point.kept else "right",
            arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": SERIES[7], "shrinkB": 2},
        )  # fmt: skip
        note.set_in_layout(False)  # names lie inside the axes and must not squeeze them


@dataclass(frozen=True)
class _Name:
    text: str
    start: float  # the end next to its point, in bytes of the axis
    end: float

    def covers(self, kept: float) -> bool:
        return min(self.start, self.end) < kept < max(self.start, self.end)

    def is_beside(self, other: _Name) -> bool:
        """Whether both would cover one another at the same height."""
        mine, others = sorted((self.start, self.end)), sorted((other.start, other.end))
        return mine[0] < others[1] and others[0] < mine[1]


def _place_name(point: _Point, highest: float) -> _Name:
    """To the right of its point, or to the left where it would leave the chart."""
    text = point.label
    if len(text) > _MAX_LABEL:
        text = text[: _MAX_LABEL - 1] + "…"
    side = highest if point.kept < 0.6 * highest else -highest
    start = point.kept + 0.03 * side
    return _Name(text, start, start + _LETTER * len(text) * side)


def _name_heights(points: Sequence[_Point], names: Sequence[_Name], line: float) -> list[float]:
    """Where names stand, so that none covers another or a point: each as near as it can be.

    Short names first, which have fewer places to go.
    """
    heights: dict[int, float] = {}
    for index in sorted(range(len(points)), key=lambda i: (len(names[i].text), points[i].accuracy)):
        own, name = points[index].accuracy, names[index]
        taken = [heights[other] for other in heights if names[other].is_beside(name)]
        taken += [one.accuracy for one in points if name.covers(one.kept)]
        # At the point, then half a line above, half a line below, a line above, and so on.
        offsets = [step / 2 * line * side for step in range(4 * len(points)) for side in (1, -1)]
        free = (
            own + offset
            for offset in offsets
            if all(abs(other - own - offset) >= 0.999 * line for other in taken)
        )
        heights[index] = next(free, own)
    return [heights[index] for index in range(len(points))]
