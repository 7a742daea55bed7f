"""A learner that is taught in milliseconds: the pixel method on stripes of 8 x 8 pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from remnant.learner import Learner
from remnant.methods import METHODS
from remnant.phases import StepReport
from tests.support.pixel_method import Pixels
from tests.support.worlds import NUM_THREADS, SEED_OFFSET


class TaughtPixels(Pixels):
    takes_known_classes: ClassVar[bool] = True
    has_one_row_per_class: ClassVar[bool] = True


def add_pixels() -> None:
    """For programs; tests have a fixture that takes it back."""
    METHODS["pixels"] = TaughtPixels


TINY: dict[str, Any] = {
    "budget": "6images/class",
    "method": "pixels",
    "codec": "raw",
    "image_size": 8,
    "epochs": 4,
    "batch_size": 4,
    "learning_rate": 0.02,
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


def write_stripes(folder: Path, *names: str, per_class: int = 6, seed: int = 0) -> Path:
    """A folder of class folders, as `stripes` of them."""
    images, labels = stripes(*names, per_class=per_class, seed=seed)
    for index, (image, label) in enumerate(zip(images, labels, strict=True)):
        path = folder / label / f"{index:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    return folder


class Counter:
    """Counts the steps, and interrupts one if asked to."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.steps: list[int] = []
        self._stop_at = stop_at

    def on_step(self, report: StepReport) -> None:
        self.steps.append(report.step)
        if report.step == self._stop_at:
            raise KeyboardInterrupt
