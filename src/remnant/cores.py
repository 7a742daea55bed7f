"""How many cores this process may use, and how many threads each of several processes."""

from __future__ import annotations

import os

# Read before Fabric sets it for the processes that it launches. OpenMP allows "4,2": nested levels.
_OMP_THREADS = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()


def usable_cores() -> int:
    """Those that a container or `taskset` leaves to this process, where the system can tell."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_each(processes: int) -> int:
    """An equal share of the cores, and no more than `OMP_NUM_THREADS` allows one process."""
    share = max(1, usable_cores() // processes)
    return min(share, int(_OMP_THREADS) or share) if _OMP_THREADS.isdecimal() else share
