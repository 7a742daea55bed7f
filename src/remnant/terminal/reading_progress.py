"""Progress of one pass over images: a bar on a terminal, a few lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def count_images(num_images: int) -> Iterator[Callable[[int], None]]:
    """A function to tell how many more images were read; they may be read more than once."""
    console = Console(stderr=True)
    if console.is_terminal:
        columns = (
            TextColumn("reading images"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("", total=num_images)
            yield lambda count: bar.advance(task, count)
        return
    began = last_line_at = time.monotonic()
    done = 0

    def tell(count: int) -> None:
        nonlocal done, last_line_at
        done = min(done + count, num_images)
        now = time.monotonic()
        if now - last_line_at >= _SECONDS_BETWEEN_LINES:
            left = (now - began) / done * (num_images - done)
            line = f"{done:,} of {num_images:,} images read, {left:.0f} s left"
            console.print(line, highlight=False)
            last_line_at = now

    yield tell
