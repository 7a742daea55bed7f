"""The option --precision: what `fastest` means on this machine."""

from __future__ import annotations

from typing import Any

from remnant.cli import console
from remnant.errors import InputError


def measure_precision(accelerator: Any = None) -> str:
    """Which precision is faster here, told before anything is trained; "auto" on a GPU.

    Raises:
        InputError: Other processes of the run might find something else.
    """
    from remnant.training.devices import fastest_precision, find_hardware
    from remnant.training.launchers import find_launch

    if find_launch() is not None:
        raise InputError(
            "--precision fastest would be measured by every process for itself. Measure it once "
            "without a launcher, and name it: --precision bf16-mixed or 32-true."
        )
    if find_hardware(accelerator or "auto", 1).accelerator != "cpu":
        return "auto"
    precision, gain = fastest_precision()
    console.notes.print(
        f"precision {precision}: in bf16 a training step is {gain:.1f} times as fast as in float32",
        soft_wrap=True,
    )
    return precision
