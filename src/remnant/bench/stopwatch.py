"""Interleaved timing, so that other load on the machine affects all workloads alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

Work = Callable[[], object]


def measure(workloads: dict[str, Work], repeats: int) -> dict[str, float]:
    """The median seconds of each workload over `repeats` rounds.

    In each round a workload runs twice and the second time counts: the first run warms up caches
    and allocator, so that it does not matter which workload ran before.
    """
    seconds: dict[str, list[float]] = {name: [] for name in workloads}
    for _ in range(repeats):
        for name, work in workloads.items():
            work()
            began = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - began)
    return {name: median(values) for name, values in seconds.items()}
