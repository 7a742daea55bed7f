"""How many cores this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Those that a container or `taskset` leaves to this process, where the system can tell."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
