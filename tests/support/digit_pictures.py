"""Real digits, as arrays and as files to choose on a page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

_DIGITS = load_digits()


def digit_pictures(digit: int, count: int, first: int = 0) -> list[np.ndarray]:
    """uint8 [8, 8, 3] each."""
    found = _DIGITS.images[_DIGITS.target == digit][first : first + count]
    return [np.repeat((15 * one).astype(np.uint8)[:, :, None], 3, axis=2) for one in found]


def write_digits(folder: Path, digit: int, count: int, first: int = 0) -> list[str]:
    paths = []
    for index, image in enumerate(digit_pictures(digit, count, first)):
        path = folder / f"{digit}-{first + index}.png"
        Image.fromarray(image).resize((80, 80), Image.Resampling.NEAREST).save(path)
        paths.append(str(path))
    return paths
