"""A plan of codecs -> one page: figures, a chart, and the same images under each of them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from remnant.files import write_text
from remnant.reports.charts.canvas import INK, MARKERS, SERIES, put_legend_above, render
from remnant.reports.embed import MAX_SIDE, image_address, inline_svg
from remnant.reports.page import Picture, render_page

FRONT_MEANING = (
    "* On the front: among whole images, or among partial ones, no other setting has at least as "
    "many exemplars, pixels of each and PSNR, and more of one of the three."
)
_Row = dict[str, Any]


def write_codec_page(
    plan: dict[str, Any], pictures: Sequence[Sequence[np.ndarray]], out: Path
) -> Path:
    """Write the page of a plan, as `Plan.document` gives it.

    `pictures` has, for each of its rows, the same images as RGBA uint8 [H, W, 4], transparent
    where nothing is stored.
    """
    rows = [
        row | {"images": [image_address(image) for image in images]}
        for row, images in zip(plan["rows"], pictures, strict=True)
    ]
    page = render_page(
        "codecs.html.j2",
        plan=plan,
        shape=" × ".join(str(length) for length in plan["image_shape"]),
        is_shrunk=max(plan["image_shape"]) > MAX_SIDE,
        front_meaning=FRONT_MEANING,
        chart=_chart(plan["rows"]),
        rows=rows,
    )
    write_text(out, page)
    return out


def _chart(rows: Sequence[_Row]) -> Picture | None:
    """Exemplars against PSNR, where the budget holds any."""
    held = [row for row in rows if row["exemplars_per_class"] > 0]
    if not held:
        return None
    title = "More exemplars, or better ones"
    caption = (
        "Further right: more exemplars of a class; higher: closer to the image. Filled: whole "
        "images, hollow: partial ones; the lines join those on the front, with the numbers of "
        "their settings."
    )
    num_lines = -(-len({_series(row) for row in held}) // 3)  # of the legend
    svg = render(lambda axes: _draw(axes, held), 3.4 + 0.2 * num_lines)
    markup = inline_svg(svg.encode(), "codecs", f"{title}. {caption}")
    return Picture("codecs", title, caption, svg=markup)


def _draw(axes: Axes, rows: Sequence[_Row]) -> None:
    finite = [row["psnr"] for row in rows if row["psnr"] is not None] or [30.0]
    exact = max(finite) + max(3.0, 0.12 * (max(finite) - min(finite)))
    for is_whole, style in ((True, "-"), (False, "--")):
        front = [row for row in rows if row["is_on_front"] and _is_whole(row) == is_whole]
        points = sorted(_place(row, exact) for row in front)
        counts, heights = [count for count, _ in points], [height for _, height in points]
        axes.plot(counts, heights, style, color=INK, alpha=0.45, linewidth=1.1)
    for index, name in enumerate(dict.fromkeys(map(_series, rows))):
        color, marker = SERIES[index % len(SERIES)], _marker(index)
        members = [row for row in rows if _series(row) == name]
        for row in members:
            axes.plot(
                *_place(row, exact), marker, color=color, markersize=6.5, linestyle="none",
                markerfacecolor=color if _is_whole(row) else "none",
                label=name if row is members[0] else None,
            )  # fmt: skip
    _annotate(axes, [row for row in rows if row["is_on_front"]], exact)
    _set_axes(axes, rows, exact)
    put_legend_above(axes, columns=3)


def _annotate(axes: Axes, rows: Sequence[_Row], exact: float) -> None:
    """The numbers of each setting, but for those that would cover others."""
    taken: list[tuple[float, float]] = []
    for row in rows:
        count, height = _place(row, exact)
        is_free = all(
            abs(math.log(count / other)) > 0.15 or abs(height - level) > 0.8
            for other, level in taken
        )
        if is_free:
            taken.append((count, height))
            text = " ".join(re.findall(r"[\d.]+", row["setting"])) or row["setting"]
            axes.annotate(text, (count, height), (5, 3), textcoords="offset points", fontsize=7)


def _set_axes(axes: Axes, rows: Sequence[_Row], exact: float) -> None:
    axes.set(xlabel="exemplars per class", ylabel="PSNR of what is stored (dB)", xscale="log")
    counts = [row["exemplars_per_class"] for row in rows]
    axes.set_xlim(0.7 * min(counts), 1.5 * max(counts))
    has_room = max(counts) < 100 * min(counts)  # for numbers between the powers of ten
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if has_room else (1.0,)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.margins(y=0.1)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    if any(row["psnr"] is None for row in rows):
        lowest = axes.get_ylim()[0]
        ticks = [tick for tick in axes.get_yticks() if lowest <= tick < exact - 1.5]
        axes.set_yticks([*ticks, exact], [*(f"{tick:.0f}" for tick in ticks), "exact"])


def _series(row: _Row) -> str:
    """A codec, and the image codec inside it if there is one."""
    through = row["settings"].get("through", "raw")
    return row["codec"] if through == "raw" else f"{row['codec']} {through}"


def _marker(index: int) -> str:
    """Markers shift with each round of colours, so that no two series look alike."""
    return MARKERS[(index + index // len(SERIES)) % len(MARKERS)]


def _is_whole(row: _Row) -> bool:
    return row["stored_ratio"] == 1


def _place(row: _Row, exact: float) -> tuple[int, float]:
    """Where a row stands in the chart; what is exact stands above all that is not."""
    return row["exemplars_per_class"], exact if row["psnr"] is None else row["psnr"]
