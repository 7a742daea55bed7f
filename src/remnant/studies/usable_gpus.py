"""The GPUs that this process may use."""

from __future__ import annotations

import os

import torch

VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"


def usable_gpus() -> list[str]:
    """As CUDA_VISIBLE_DEVICES names them: numbers, or what the user has given there."""
    count = torch.cuda.device_count()
    given = os.environ.get(VISIBLE_GPUS)
    names = given.split(",") if given else map(str, range(count))
    return [name.strip() for name in names][:count]
