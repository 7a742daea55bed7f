"""What this process may use of its machine: the cores and the GPUs that it was left."""

from __future__ import annotations

import os

import torch

VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"


def usable_cores() -> int:
    """Those that a container or `taskset` leaves to this process, where the system can tell."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def usable_gpus() -> list[str]:
    """As CUDA_VISIBLE_DEVICES names them: numbers, or what the user has given there."""
    count = torch.cuda.device_count()
    given = os.environ.get(VISIBLE_GPUS)
    names = given.split(",") if given else map(str, range(count))
    return [name.strip() for name in names][:count]
