"""Several run folders -> one page that sets them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from remnant.reports.canvas import MARKERS, SERIES, put_legend_above, render, set_byte_axis
from remnant.reports.embed import inline_svg
from remnant.reports.figures import marker_spacing, set_accuracy_axes
from remnant.reports.groups import RunGroup, differing_settings, read_groups
from remnant.reports.page import Picture, order_text, render_page
from remnant.reports.records import RunFolder, write_file
from remnant.reports.tables import comparison_table, to_latex, to_markdown


def write_comparison(folders: Sequence[Path], out: Path) -> Path:
    """Write one page that compares the runs among and inside `folders`.

    Raises:
        RunFolderError: A folder holds no run, or no run is finished.
    """
    groups, unfinished = read_groups(folders)
    write_file(out, _comparison_page(groups, unfinished))
    return out


def curves_picture(folders: Sequence[Path]) -> str:
    """The accuracy curves of several runs as an SVG file of its own: dark ink on white.

    Raises:
        RunFolderError: A folder holds no run, or no run is finished.
    """
    groups, _ = read_groups(folders)
    svg = _curves_svg(groups).replace("currentColor", "#1c2126")
    return svg.replace("<svg ", '<svg style="background: #ffffff" ', 1)


def _comparison_page(groups: Sequence[RunGroup], unfinished: Sequence[RunFolder]) -> str:
    table = comparison_table(groups)
    runs = [(group, run) for group in groups for run in group.runs]
    return render_page(
        "comparison.html.j2",
        groups=groups,
        num_runs=len(runs),
        unfinished=[run.name for run in unfinished],
        twins=[group.label for group in groups if group.has_twins],
        table=table,
        pictures=_comparison_pictures(groups),
        differences=differing_settings(groups),
        runs=[(group.label, run, order_text(run)) for group, run in runs],
        copies=[("Markdown", to_markdown(table)), ("LaTeX", to_latex(table))],
    )


def _comparison_pictures(groups: Sequence[RunGroup]) -> list[Picture]:
    pictures = []
    for dataset in dict.fromkeys(group.first.result.dataset for group in groups):
        members = [group for group in groups if group.first.result.dataset == dataset]
        if any(len(group.curve()[0]) > 1 for group in members):
            title = f"Accuracy over the stream: {dataset}"
            caption = "On all classes seen so far, after each task."
            if any(len(group.runs) > 1 for group in members):
                caption += " Lines are means, bands one standard deviation over runs."
            pictures.append(_drawn(f"curves-{len(pictures)}", title, caption, _curves_svg(members)))
        if len(members) > 1 and any(group.first.counted_ledger for group in members):
            title, caption = f"Accuracy for bytes: {dataset}", "Higher and further left is better."
            pictures.append(_drawn(f"bytes-{len(pictures)}", title, caption, _bytes_svg(members)))
    return pictures


def _drawn(name: str, title: str, caption: str, svg: str) -> Picture:
    markup = inline_svg(svg.encode(), name, f"{title}. {caption}")
    return Picture(name, title, caption, svg=markup)


def _curves_svg(groups: Sequence[RunGroup]) -> str:
    """Accuracy after each task, one line per group, with a band of one deviation."""
    return render(lambda axes: _draw_curves(axes, groups), _height(groups))


def _bytes_svg(groups: Sequence[RunGroup]) -> str:
    """Average accuracy against the bytes that the memory used."""
    return render(lambda axes: _draw_bytes(axes, groups), _height(groups))


def _height(groups: Sequence[RunGroup]) -> float:
    return 3.0 + 0.19 * len(groups)  # the legend has a line per group


def _draw_curves(axes: Axes, groups: Sequence[RunGroup]) -> None:
    for index, group in enumerate(groups):
        seen, spreads = group.curve()
        color, marker = SERIES[index % len(SERIES)], MARKERS[index % len(MARKERS)]
        means = np.array([spread.mean for spread in spreads])
        style = "-" if index < len(SERIES) else "--"
        axes.plot(seen, means, style, color=color, marker=marker, label=group.label,
                  markevery=marker_spacing(seen))  # fmt: skip
        if len(group.runs) > 1:
            deviations = np.array([spread.deviation or 0.0 for spread in spreads])
            band = means - deviations, means + deviations
            axes.fill_between(seen, *band, color=color, alpha=0.2, linewidth=0)
    set_accuracy_axes(axes, sorted({count for group in groups for count in group.curve()[0]}))
    put_legend_above(axes, columns=1)


def _draw_bytes(axes: Axes, groups: Sequence[RunGroup]) -> None:
    for index, group in enumerate(groups):
        used = group.spread(lambda run: run.result.memory.used_bytes if run.result.memory else 0)
        accuracy = group.spread(lambda run: run.result.average_accuracy)
        if used is not None and accuracy is not None:
            axes.errorbar(
                used.mean, accuracy.mean, yerr=accuracy.deviation, linestyle="none", capsize=3,
                color=SERIES[index % len(SERIES)], marker=MARKERS[index % len(MARKERS)],
                markersize=7, label=group.label,
            )  # fmt: skip
    axes.set(xlabel="bytes used by the memory", ylabel="average accuracy (%)")
    axes.margins(x=0.1, y=0.15)
    set_byte_axis(axes, axes.get_xlim()[1])
    put_legend_above(axes, columns=1)
