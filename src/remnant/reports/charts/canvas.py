"""Charts as SVG text that take their ink from the page around them.

Text and axes are drawn in one colour that nothing else uses and which then becomes `currentColor`,
so a chart is right on a light page and on a dark one. Equal data give equal bytes.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from remnant.reports.units import bytes_text

INK = "#010203"
# Told apart with the common colour-vision deficiencies (markers help), and at least 3:1 against
# both the light and the dark page.
SERIES = ("#0d7ac4", "#d9600b", "#0f9480", "#d5408f", "#8f6de0", "#8a7d12", "#c7372f", "#6d7a86")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
SHADES = "viridis"  # readable in grey and with colour-vision deficiencies

_WIDTH_INCHES = 4.6  # near a phone's width, where text then keeps its size
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "remnant",
    "font.family": ["DejaVu Sans"],  # comes with matplotlib, so layout is the same everywhere
    "font.size": 9.5,
    "axes.titlesize": 9.5,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": INK,
    "grid.alpha": 0.13,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


def render(draw: Callable[[Axes], None], height_inches: float = 3.0) -> str:
    """The SVG of one chart that `draw` puts on empty axes."""
    return render_figure(lambda figure: draw(figure.add_subplot()), height_inches)


def render_figure(draw: Callable[[Figure], None], height_inches: float) -> str:
    """The SVG of what `draw` puts on an empty figure."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH_INCHES, height_inches), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        buffer = io.StringIO()
        # No date and no version: the same run gives the same file.
        figure.savefig(buffer, format="svg", dpi=200, metadata={"Date": None, "Creator": None})
    return buffer.getvalue().replace(INK, "currentColor")


def on_white(svg: str) -> str:
    """A chart as a file of its own, with dark ink on white, whatever page it is put on."""
    svg = svg.replace("currentColor", "#1c2126")
    return svg.replace("<svg ", '<svg style="background: #ffffff" ', 1)


def set_byte_axis(axes: Axes, highest: float) -> None:
    """Ticks at round binary sizes from 0 to `highest` on the axis below."""
    unit = 1024 ** int(math.log(max(highest, 1), 1024))
    ticks = [unit * tick for tick in MaxNLocator(nbins=4).tick_values(0, highest / unit)]
    axes.set_xticks([tick for tick in ticks if tick <= highest])
    axes.xaxis.set_major_formatter(lambda value, _: bytes_text(value))


def put_legend_above(axes: Axes, columns: int) -> None:
    """A legend in the margin, where it can hide no data."""
    axes.figure.legend(
        *axes.get_legend_handles_labels(), loc="outside upper left", ncols=columns,
        handlelength=1.8, columnspacing=1.2, borderaxespad=0.2,
    )  # fmt: skip


def as_label(name: str) -> str:
    """A name from outside as it may be drawn: no formula, and nothing that an SVG forbids."""
    shown = "".join(one if one.isprintable() else "\ufffd" for one in name)
    return shown.replace("$", r"\$")


def ink_on(shade: float) -> str:
    """Black or white, whichever reads better on a shade (0 to 1) of `SHADES`."""
    red, green, blue, _ = matplotlib.colormaps[SHADES](shade)
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"
