"""Which training images are used, and which of them are set aside for validation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from remnant.errors import InputError
from remnant.images import ImageSet
from remnant.randomness import generator


def first_per_class(images: ImageSet, count: int, class_names: Sequence[str]) -> ImageSet:
    """The `count` images of each class with the lowest ids, in the order they had.

    Raises:
        InputError: A class has fewer.
    """
    kept = []
    for name, positions in _by_class(images, class_names):
        if len(positions) < count:
            raise InputError(
                f'class "{name}" has {len(positions)} training images; data.images_per_class '
                f"is {count}. Set it to at most {len(positions)}, or add images."
            )
        kept.append(positions[images.ids[positions].argsort()[:count]])
    return images.select(torch.cat(kept).sort().values)


def hold_out(
    images: ImageSet, ratio: float, class_names: Sequence[str]
) -> tuple[ImageSet, ImageSet]:
    """Training and validation images; a class's split depends on nothing but the class.

    A larger ratio holds out what a smaller one does, and more.
    """
    is_held = torch.zeros(len(images), dtype=torch.bool)
    for label, (name, positions) in enumerate(_by_class(images, class_names)):
        if len(positions) < 2:
            raise InputError(
                f'class "{name}" must have at least 2 training images for data.holdout_ratio; it '
                f"has {len(positions)}. Add images, or set the ratio to 0."
            )
        order = torch.randperm(len(positions), generator=generator(0, "holdout", label))
        is_held[positions[order[: held_out_count(len(positions), ratio)]]] = True
    train, validation = torch.nonzero(~is_held).flatten(), torch.nonzero(is_held).flatten()
    return images.select(train), images.select(validation)


def held_out_count(num_images: int, ratio: float) -> int:
    """How many of a class's training images are set aside: one at least, and not all."""
    return min(num_images - 1, max(1, round(num_images * ratio)))


def _by_class(images: ImageSet, class_names: Sequence[str]) -> Iterator[tuple[str, Tensor]]:
    for label, name in enumerate(class_names):
        yield name, torch.nonzero(images.labels == label).flatten()
