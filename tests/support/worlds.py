"""Tiny worlds to learn in: images of class k are filled with the value of k, plus noise."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from remnant.data import Dataset, load_dataset
from remnant.data.stream import TaskStream
from remnant.images import ArrayImages, ImageSet

MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)

# `make test-elsewhere` tries other images and first weights, and more threads. The golden runs
# alone keep theirs.
SEED_OFFSET = int(os.environ.get("REMNANT_TEST_SEED", "0"))
NUM_THREADS = int(os.environ.get("REMNANT_TEST_THREADS", "1"))

load_once = cache(load_dataset)  # runs of a second should not load for two


def seeded(seed: int) -> torch.Generator:
    """A generator for images, features and weights; `REMNANT_TEST_SEED` shifts them all."""
    return torch.Generator().manual_seed(SEED_OFFSET + seed)


def filled_images(labels: Tensor, size: int = 16, seed: int = 0) -> Tensor:
    """uint8 [N, size, size, 3]: class k is grey of level 20 + 40 k, give or take 8."""
    shape = (len(labels), size, size, 3)
    noise = torch.randint(-8, 9, shape, generator=seeded(seed))
    return (20 + 40 * labels.view(-1, 1, 1, 1) + noise).clamp(0, 255).to(torch.uint8)


def make_set(
    num_classes: int = 4, per_class: int = 8, *, size: int = 16, seed: int = 0, first_id: int = 0
) -> ImageSet:
    """Images of the classes in turn, with consecutive ids."""
    labels = torch.arange(num_classes * per_class) % num_classes
    ids = torch.arange(first_id, first_id + len(labels))
    return ImageSet(ArrayImages(filled_images(labels, size, seed)), labels, ids)


def make_dataset(
    num_classes: int = 4, train_per_class: int = 8, test_per_class: int = 4, size: int = 16
) -> Dataset:
    return Dataset(
        name="filled",
        train=make_set(num_classes, train_per_class, size=size, seed=1),
        test=make_set(num_classes, test_per_class, size=size, seed=2, first_id=10_000),
        class_names=tuple(f"grey {index}" for index in range(num_classes)),
        mean=MEAN,
        std=STD,
    )


def make_stream(dataset: Dataset, task_sizes: Sequence[int] = (2, 2)) -> TaskStream:
    classes = iter(range(len(dataset.class_names)))
    tasks = [[next(classes) for _ in range(size)] for size in task_sizes]
    return TaskStream(dataset.train, dataset.test, dataset.class_names, tasks)


class LazyImages:
    """In-memory images that pretend to be decoded from files, and tell which were read."""

    is_lazy = True

    def __init__(self, images: ArrayImages) -> None:
        self._images = images
        self.num_reads = 0

    @property
    def shape(self) -> tuple[int, int, int]:
        return self._images.shape

    def __len__(self) -> int:
        return len(self._images)

    def read(self, positions: Tensor, draws: Tensor | None = None) -> Tensor:
        self.num_reads += 1
        return self._images.read(positions, draws)

    def select(self, positions: Tensor) -> LazyImages:
        return LazyImages(self._images.select(positions))
