"""The file of test images that a run redraws for its figure; written and read here, without torch.

One image of each of a few tasks, spread over the stream, is redrawn after each of these tasks: also
before its own task was learned, which shows what a network that draws knows of images in general.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from remnant.archives import read_archive, write_archive

DRAWINGS = "drawings"
MAX_SIDE = 64  # px of the pictures on file: a run folder stays small however large images are
_NUM_TASKS = 4  # as in the figure of [bimae], Zhai et al., ICCV 2023


@dataclass(frozen=True)
class Drawings:
    """One test image of each of several tasks, redrawn after a task."""

    task: int  # the one just learned
    pictures: Mapping[str, np.ndarray]  # uint8 [n, H, W, C]: "original", "visible", "both" ...
    tasks: list[int]  # of each image
    psnr: dict[str, list[float]]  # by kind: in dB for each task, the mean over test images of it
    num_scored: int  # images of each task in such a mean


def drawn_tasks(num_tasks: int) -> list[int]:
    """Four tasks spread evenly, the first and the last among them; all where there are fewer."""
    spread = np.linspace(0, num_tasks - 1, min(_NUM_TASKS, num_tasks))
    return [int(index) for index in spread.round()]


def write_drawings(folder: Path, drawn: Drawings) -> None:
    words = {"tasks": drawn.tasks, "psnr": drawn.psnr, "num_scored": drawn.num_scored}
    pictures = {name: shrink(images) for name, images in drawn.pictures.items()}
    write_archive(_file_of(folder, drawn.task), DRAWINGS, 1, pictures, words | {"task": drawn.task})


def read_drawings(folder: Path) -> list[Drawings]:
    """Those of each task on file, in order; empty for a run that drew none.

    Raises:
        InputError: A file is damaged.
    """
    paths = sorted((folder / DRAWINGS).glob("task-*.safetensors"))
    found = [read_archive(path, DRAWINGS, 1) for path in paths]
    return [
        Drawings(words["task"], arrays, words["tasks"], words["psnr"], words["num_scored"])
        for arrays, words in found
    ]


def shrink(images: np.ndarray) -> np.ndarray:
    """Images uint8 [n, H, W, C] of at most `MAX_SIDE` pixels: means over squares of pixels."""
    height, width = images.shape[1:3]
    factor = -(-max(height, width) // MAX_SIDE)
    if factor == 1:
        return images
    rows, columns = height // factor, width // factor
    squares = images[:, : rows * factor, : columns * factor].reshape(
        len(images), rows, factor, columns, factor, -1
    )
    return squares.mean(axis=(2, 4)).round().astype(np.uint8)


def _file_of(folder: Path, task: int) -> Path:
    return folder / DRAWINGS / f"task-{task:03d}.safetensors"
