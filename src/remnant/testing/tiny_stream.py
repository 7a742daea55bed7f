"""A stream that any method can learn: classes of coloured squares, a few images of each.

A class is a hue, which neither crops nor mirror images change.
"""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from remnant.images import ArrayImages, Images, ImageSet, Task

SHAPE = (16, 16, 3)
MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
PADDING = 1  # pixels of the border of a crop
PER_CLASS = 16  # images to learn from, and as many to test with
_NOISE = 24  # of each pixel, up and down, of 255 levels


@dataclass
class Reads:
    """Which tasks' training images were read during which task."""

    task: int = -1  # the current one
    found: set[tuple[int, int]] = field(default_factory=set)  # current task, task of the image


@dataclass(frozen=True)
class WatchedImages:
    """Images of one task that note when they are read."""

    images: Images
    task: int
    reads: Reads

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.images.shape

    @property
    def is_lazy(self) -> bool:
        return self.images.is_lazy

    def __len__(self) -> int:
        return len(self.images)

    def read(self, positions: Tensor, draws: Tensor | None = None) -> Tensor:
        self.reads.found.add((self.reads.task, self.task))
        return self.images.read(positions, draws)

    def select(self, positions: Tensor) -> WatchedImages:
        return replace(self, images=self.images.select(positions))


def make_tasks(task_sizes: Sequence[int], reads: Reads) -> list[Task]:
    """The tasks, with training images that note in `reads` when they are read."""
    tasks, first = [], 0
    for index, size in enumerate(task_sizes):
        labels = torch.arange(first, first + size)
        train = make_set(labels, sum(task_sizes), seed=index)
        train = replace(train, images=WatchedImages(train.images, index, reads))
        names = tuple(f"hue {label}" for label in labels.tolist())
        tasks.append(Task(index, len(task_sizes), first, names, train))
        first += size
    return tasks


def make_set(labels: Tensor, num_classes: int, seed: int) -> ImageSet:
    """The same number of images of each of these classes, of `num_classes` that there are."""
    labels = labels.repeat(PER_CLASS)
    hues = [colorsys.hsv_to_rgb(label / num_classes, 0.8, 0.8) for label in range(num_classes)]
    colours = (255 * torch.tensor(hues)).round()[labels]  # [N, 3]
    rng = torch.Generator().manual_seed(seed)
    noise = torch.randint(-_NOISE, _NOISE + 1, (len(labels), *SHAPE), generator=rng)
    pixels = (colours[:, None, None] + noise).clamp(0, 255).to(torch.uint8)
    return ImageSet(ArrayImages(pixels), labels, torch.arange(len(labels)))
