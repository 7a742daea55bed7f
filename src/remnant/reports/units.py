"""Numbers as people read them."""

from __future__ import annotations

MISSING = "–"  # what a table shows for a number that a run does not have


def bytes_text(count: float) -> str:
    """Binary units: 61,440 is `60.0 KiB`."""
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.2f} GiB"


def count_text(count: float) -> str:
    """Three significant digits with a decimal prefix: 464,154 is `464 k`."""
    for size, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            value = count / size
            digits = 0 if value >= 100 else 1 if value >= 10 else 2
            return f"{value:.{digits}f} {prefix}"
    return f"{count:.0f}"


def seconds_text(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min"


def hours_text(hours: float) -> str:
    """A forecast: `12 min`, `3.4 h`, `120 h`."""
    if hours < 1:
        return f"{max(1, round(60 * hours))} min" if hours >= 1 / 60 else "< 1 min"
    return f"{hours:.1f} h" if hours < 100 else f"{hours:,.0f} h"


def decibels_text(value: float | None) -> str:
    """A PSNR without its unit; None is no error at all."""
    return "exact" if value is None else f"{value:.1f}"


def percent_text(value: float | None, digits: int = 1) -> str:
    """A percentage without its sign; `-0.0` is written as `0.0`."""
    if value is None:
        return MISSING
    return f"{round(value, digits) + 0.0:.{digits}f}"
