"""Times of several things measured in turns, so that what slows the machine slows them all."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

Work = Callable[[], object]


def measure(works: dict[str, Work], repeats: int) -> dict[str, float]:
    """The median seconds of each piece of work; one round to warm up, then `repeats` rounds."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for round_ in range(repeats + 1):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            if round_ > 0:
                seconds[name].append(time.perf_counter() - began)
    return {name: median(values) for name, values in seconds.items()}
