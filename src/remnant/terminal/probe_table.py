"""What `remnant probe` prints: a line per look, and one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

_HEADERS = ("look", "old to newest", "new to newest", "lean", "old right", "new right", "all right")


def cue_lines(probed: dict[str, Any]) -> Iterator[RenderableType]:
    """The JSON of a probe, for people; beside each number its difference to the first row's."""
    table = Table(box=None, pad_edge=False)
    for place, header in enumerate(_HEADERS):
        table.add_column(header, justify="left" if place == 0 else "right", no_wrap=place == 0)
    plain = probed["looks"][0]
    for look in probed["looks"]:
        names = ("old_to_newest", "new_to_newest", "accuracy_old", "accuracy_new", "accuracy")
        cells = [_cell(look[name], None if look is plain else plain[name]) for name in names]
        lean = "" if look is plain else f"{look['lean']:+.1f} ± {look['lean_error']:.1f}"
        table.add_row(look["name"], *cells[:2], lean, *cells[2:])
    yield table
    yield Text(
        f"Percent of {probed['num_old_images']} test images of old classes and "
        f"{probed['num_new_images']} of the newest ({', '.join(probed['newest_classes'][:5])}"
        f"{', …' if len(probed['newest_classes']) > 5 else ''})."
    )
    for name, reason in sorted(probed["left_out"].items()):
        yield Text(f"Not measured: {name}, since {reason}.")
    yield Text(probed["bias"]["reading"])
    yield Text(probed["reading"], style="bold")


def _cell(value: float, plain: float | None) -> str:
    return f"{value:.1f}" if plain is None else f"{value:.1f} {value - plain:+.1f}"
