"""What a run uses of the hardware: accelerator, precision, compiled code, allocator.

The choice depends only on the settings and the hardware, so it is known before training starts and
tested without the hardware. It changes results by rounding at most.
"""

from __future__ import annotations

import ctypes
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from remnant.errors import InputError

Accelerator = Literal["cpu", "cuda", "mps"]
Precision = Literal["32-true", "bf16-mixed"]

_MIN_BF16 = (8, 0)  # CUDA compute capability; older devices emulate it, slower than float32
_MIN_TF32 = (8, 0)
_MEASURED_STEPS = 5
_WORTH_BF16 = 1.2  # times as fast as float32
_MIN_COMPILE = (7, 0)  # supported by Triton, the back end of torch.compile
_COMPILER = "inductor"
_MAX_VARIANTS = (
    64  # compiled versions of one block, for its shapes; torch's default of 8 is too few
)

# glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_NEVER_TRIM = (1 << 31) - 1
_USER_SETTINGS = ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


@dataclass(frozen=True)
class Hardware:
    """The devices of this machine that a run trains on."""

    accelerator: Accelerator
    capability: tuple[int, int] = (0, 0)  # lowest compute capability of its CUDA devices


@dataclass(frozen=True)
class Acceleration:
    """What a run uses of the hardware; recorded in environment.json."""

    accelerator: Accelerator
    precision: Precision
    tf32: bool  # float32 matrix products with a mantissa of 10 bits
    compiled_blocks: bool
    pinned_memory: bool  # batches are read ahead into it and copied while the device computes
    fused_optimizers: bool


def find_hardware(wanted: Accelerator | Literal["auto"], devices: int) -> Hardware:
    """The requested accelerator; for "auto", the best one available.

    Raises:
        InputError: It is not available, or has fewer devices than requested.
    """
    has_cuda, has_mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    best: Accelerator = "cuda" if has_cuda else "mps" if has_mps else "cpu"
    name = best if wanted == "auto" else wanted
    if (name == "cuda" and not has_cuda) or (name == "mps" and not has_mps):
        raise InputError(
            f"training.accelerator={name} needs a device that torch cannot find. Use "
            "--accelerator cpu, or install a build of torch that supports it."
        )
    available = {"cuda": torch.cuda.device_count(), "mps": 1}.get(name, devices)
    if devices > available:
        raise InputError(
            f"training.devices must be at most {available}, the number of {name} devices here; got "
            f"{devices}. Use --devices {available} or --accelerator cpu."
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
    """What to use of `hardware`; "auto" turns on what helps there."""
    is_cuda = hardware.accelerator == "cuda"
    if precision == "auto":
        has_bf16 = is_cuda and hardware.capability >= _MIN_BF16
        precision = "bf16-mixed" if has_bf16 else "32-true"
    can_compile = is_cuda and hardware.capability >= _MIN_COMPILE
    return Acceleration(
        accelerator=hardware.accelerator,
        precision=precision,
        tf32=tf32 and is_cuda and hardware.capability >= _MIN_TF32,
        compiled_blocks=can_compile if compiling == "auto" else compiling == "on",
        pinned_memory=is_cuda,
        fused_optimizers=is_cuda,
    )


def fastest_precision(clock: Callable[[], float] = time.process_time) -> tuple[Precision, float]:
    """How this processor trains faster, and how many times as fast bf16 is as float32.

    Measured on steps of a small network of matrix products and convolutions, the best of a few.
    Gains that are too small to be sure of are left: float32 then.
    """
    network = nn.Sequential(
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Flatten(2), nn.Linear(256, 1024), nn.GELU(),
        nn.Linear(1024, 64),
    )  # fmt: skip
    views, seconds = torch.ones(16, 32, 16, 16), {False: float("inf"), True: float("inf")}
    for _ in range(_MEASURED_STEPS):
        for is_bf16 in seconds:
            began = clock()
            with torch.autocast("cpu", torch.bfloat16, enabled=is_bf16):
                loss = network(views).square().mean()
            loss.backward()
            seconds[is_bf16] = min(seconds[is_bf16], clock() - began)
    gain = seconds[False] / seconds[True]
    return "bf16-mixed" if gain >= _WORTH_BF16 else "32-true", gain


@contextmanager
def compiled_blocks(network: nn.Module) -> Iterator[None]:
    """Within this context, the blocks of a network (classes named `*Block`) run as compiled code.

    Only blocks are compiled, since a loss that branches at every step and a growing classifier
    would force recompilation. Instances of one class share their code. Each input shape is
    compiled on its own, so a resumed run uses the same code as one that never stopped.
    """
    from torch._dynamo import config as dynamo  # takes a second to import

    blocks = [part for part in network.modules() if type(part).__name__.endswith("Block")]
    torch.compiler.reset()  # versions from earlier phases would count towards the limit
    with dynamo.patch(cache_size_limit=_MAX_VARIANTS):
        for block in blocks:
            block.compile(dynamic=False, backend=_COMPILER)
        try:
            yield
        finally:
            for block in blocks:
                block._compiled_call_impl = None  # there is no public way to undo `compile`


def keep_freed_memory() -> bool:
    """Make glibc's malloc keep freed memory for reuse; returns whether it was configured.

    By default malloc returns every large tensor to the kernel, and gets it back page by page,
    zeroed: a seventh of a training step on CPUs. The price is that the process keeps the memory of
    its largest step. Settings in the environment take precedence.
    """
    if platform.libc_ver()[0] != "glibc" or any(name in os.environ for name in _USER_SETTINGS):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, _NEVER_TRIM))
