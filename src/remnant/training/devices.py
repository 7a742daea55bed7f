"""What the hardware offers to train faster, and which of it a run uses.

The choice is a function of the settings and the hardware alone, so that it can be told in advance
and tested without the hardware. None of it changes what is learned but by rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from remnant.errors import InputError

Accelerator = Literal["cpu", "cuda", "mps"]
Precision = Literal["32-true", "bf16-mixed"]

_HAS_BF16 = (8, 0)  # CUDA compute capability; older devices only emulate it, slower than float32
_HAS_TF32 = (8, 0)
_HAS_COMPILER = (7, 0)  # what Triton, the compiler's back end, supports
_COMPILER = "inductor"
_MOST_VARIANTS = 64  # of one block's code, for its shapes within a phase; torch's 8 are too few


@dataclass(frozen=True)
class Hardware:
    """Where a run is trained."""

    accelerator: Accelerator
    capability: tuple[int, int] = (0, 0)  # of the least capable CUDA device


@dataclass(frozen=True)
class Acceleration:
    """What a run makes use of; environment.json tells it."""

    accelerator: Accelerator
    precision: Precision
    tf32: bool  # float32 products with the digits of 10 bits
    compiled_blocks: bool
    pinned_memory: bool  # batches are read ahead into it, and copied while the device works
    fused_optimizers: bool


def find_hardware(wanted: Accelerator | Literal["auto"], devices: int) -> Hardware:
    """The accelerator asked for, or the best there is.

    Raises:
        InputError: It is not there, or not as often as asked for.
    """
    has_cuda, has_mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    best: Accelerator = "cuda" if has_cuda else "mps" if has_mps else "cpu"
    name = best if wanted == "auto" else wanted
    if (name == "cuda" and not has_cuda) or (name == "mps" and not has_mps):
        raise InputError(
            f"training.accelerator={name} needs a device that torch cannot find here. Use "
            "--accelerator cpu, or install a torch built for it."
        )
    available = {"cuda": torch.cuda.device_count(), "mps": 1}.get(name, devices)
    if devices > available:
        raise InputError(
            f"training.devices must be at most the {available} that {name} has here; got "
            f"{devices}. Use --devices {available}, or --accelerator cpu."
        )
    if name != "cuda":
        return Hardware(name)
    return Hardware(name, min(torch.cuda.get_device_capability(i) for i in range(devices)))


def choose_acceleration(
    hardware: Hardware,
    precision: Precision | Literal["auto"],
    compiling: Literal["auto", "on", "off"],
    tf32: bool,
) -> Acceleration:
    """What to use of `hardware`; "auto" takes what helps there."""
    is_cuda = hardware.accelerator == "cuda"
    if precision == "auto":
        has_bf16 = is_cuda and hardware.capability >= _HAS_BF16
        precision = "bf16-mixed" if has_bf16 else "32-true"
    can_compile = is_cuda and hardware.capability >= _HAS_COMPILER
    return Acceleration(
        accelerator=hardware.accelerator,
        precision=precision,
        tf32=tf32 and is_cuda and hardware.capability >= _HAS_TF32,
        compiled_blocks=can_compile if compiling == "auto" else compiling == "on",
        pinned_memory=is_cuda,
        fused_optimizers=is_cuda,
    )


@contextmanager
def compiled_blocks(network: nn.Module) -> Iterator[None]:
    """For a while, the blocks of a network (classes named so) run as compiled code.

    Only blocks, all instances of one class by the same code: what a loss decides anew at every
    step and a classifier that grows would make compiled code stale. Each shape gets code of its
    own, so a resumed run computes with the same code as one that never stopped.
    """
    from torch._dynamo import config as dynamo  # takes a second to import

    blocks = [part for part in network.modules() if type(part).__name__.endswith("Block")]
    torch.compiler.reset()  # variants of earlier phases would use up the number allowed
    with dynamo.patch(cache_size_limit=_MOST_VARIANTS):
        for block in blocks:
            block.compile(dynamic=False, backend=_COMPILER)
        try:
            yield
        finally:
            for block in blocks:
                block._compiled_call_impl = None  # there is no public way back
