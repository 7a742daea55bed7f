"""Small image files and layouts that the tests of `remnant.data` read back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image


def textured(width: int, height: int) -> Image.Image:
    """A smooth picture without symmetry: every crop, flip and turn of it differs."""
    down, across = np.mgrid[0:height, 0:width]
    down, across = down / height, across / width
    channels = [
        across * 255,
        down**2 * 255,
        127 + 127 * np.sin(5 * across + 3 * down),
    ]
    return Image.fromarray(np.stack(channels, axis=2).astype(np.uint8))


def flat(level: int, side: int = 8) -> Image.Image:
    return Image.new("RGB", (side, side), (level, level, level))


def write_classes(folder: Path, counts: Mapping[str, int], *, inner: str = "") -> None:
    """`counts` of one-coloured PNG files per class; image k of a class has grey level k."""
    for name, count in counts.items():
        (folder / name / inner).mkdir(parents=True, exist_ok=True)
        for index in range(count):
            flat(index).save(folder / name / inner / f"{index:03}.png")
