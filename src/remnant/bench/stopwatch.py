"""Times of several things measured in turns, so that what slows the machine slows them all."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

Work = Callable[[], object]


def measure(works: dict[str, Work], repeats: int) -> dict[str, float]:
    """The median seconds of each piece of work over `repeats` rounds.

    In each round a piece is done twice and the second time counts: the first brings caches and
    freed memory into the state that this work leaves behind, whatever ran before it.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            work()
            began = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - began)
    return {name: median(values) for name, values in seconds.items()}
