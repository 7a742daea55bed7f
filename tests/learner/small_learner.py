"""A learner that is taught in milliseconds: the pixel method on stripes of 8 x 8 pixels."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pixel_method import Pixels, PixelsConfig, schedule
from worlds import NUM_THREADS, SEED_OFFSET

from remnant.config import RunConfig
from remnant.data import DataConfig
from remnant.learner import Learner
from remnant.memory import MemoryConfig
from remnant.methods import METHODS
from remnant.recipes import RECIPES
from remnant.training.trainer import StepReport


class TaughtPixels(Pixels):
    takes_known_classes: ClassVar[bool] = True
    has_one_row_per_class: ClassVar[bool] = True


def recipe() -> RunConfig:
    return RunConfig(
        data=DataConfig(dataset="digits"),
        memory=MemoryConfig(),
        method=PixelsConfig(first=schedule(4, 8, lr=0.02)),
    )


def add_pixels() -> None:
    """For programs; tests have a fixture that takes it back."""
    METHODS["pixels"] = TaughtPixels
    RECIPES["cifar100-mini-pixels"] = recipe


TINY: dict[str, Any] = {
    "budget": "6images/class",
    "method": "pixels",
    "codec": "raw",
    "image_size": 8,
    "epochs": 4,
    "batch_size": 4,
    "augment": "none",
    "accelerator": "cpu",
    "threads": NUM_THREADS,
    "quiet": True,
    "options": {"training.checkpoint_every_steps": 2},
}


def tiny_learner(**changes: Any) -> Learner:
    return Learner(**(TINY | changes))


def stripes(*names: Any, per_class: int = 6, seed: int = 0) -> tuple[np.ndarray, list[Any]]:
    """Images whose bright column tells the name, "a" or 0 the first: uint8 [N, 8, 8, 3]."""
    labels = [name for name in names for _ in range(per_class)]
    columns = [name if isinstance(name, int) else ord(name) - ord("a") for name in labels]
    images = np.random.default_rng(SEED_OFFSET + seed).integers(
        20, 60, (len(labels), 8, 8, 3), dtype=np.uint8
    )
    images[np.arange(len(labels)), :, columns] += 150
    return images, labels


class Counter:
    """Counts the steps, and interrupts one if asked to."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.steps: list[int] = []
        self._stop_at = stop_at

    def on_step(self, report: StepReport) -> None:
        self.steps.append(report.step)
        if report.step == self._stop_at:
            raise KeyboardInterrupt
