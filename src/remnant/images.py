"""Images in memory or on disk, labelled sets of them, and the tasks they are learned in.

An *image* is uint8, height x width x channels.

Axes: N images, H height, W width, C channels, GH x GW patches of an image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Protocol, TypeVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

Shape = tuple[int, int, int]  # height, width and channels of an image
ArrayT = TypeVar("ArrayT", np.ndarray, Tensor)


class Images(Protocol):
    """Images of one size, read by position: from memory, or decoded from files on demand."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of every image that `read` gives."""
        ...

    @property
    def is_lazy(self) -> bool:
        """Reading decodes files, so it is worth doing ahead of time in workers."""
        ...

    def __len__(self) -> int: ...

    def read(self, positions: Tensor, draws: Tensor | None = None) -> Tensor:
        """The images at `positions` [n] as uint8 [n, H, W, C].

        With `draws`, uniform numbers in [0, 1) of shape [n, 4], each image is a random resized
        crop (area, aspect ratio, row, column); without, it is framed as for testing.
        """
        ...

    def select(self, positions: Tensor) -> Images: ...


@dataclass(frozen=True)
class ImageSet:
    """Images with labels and stable ids; some images may be known only in part."""

    images: Images
    labels: Tensor  # int64 [N]; positions in the class order once a stream has mapped them
    ids: Tensor  # int64 [N]; position in the data set on disk, never reused within a split
    is_known: Tensor | None = None  # bool [N, GH, GW]; None: every patch of every image is known

    def __post_init__(self) -> None:
        if not len(self.images) == len(self.labels) == len(self.ids):
            raise ValueError(
                f"an ImageSet needs one label and one id per image; got {len(self.images)} images, "
                f"{len(self.labels)} labels, {len(self.ids)} ids"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, positions: Tensor) -> ImageSet:
        """The subset at `positions`, in that order."""
        return ImageSet(
            self.images.select(positions),
            self.labels[positions],
            self.ids[positions],
            None if self.is_known is None else self.is_known[positions],
        )

    def of_class(self, label: int) -> ImageSet:
        return self.select(torch.nonzero(self.labels == label).flatten())

    def with_labels(self, labels: Tensor) -> ImageSet:
        return replace(self, labels=labels)


@dataclass(frozen=True)
class Task:
    """One step of a stream: the classes that are new and their training images."""

    index: int  # from 0
    num_tasks: int
    num_old_classes: int
    class_names: tuple[str, ...]  # of the new classes, in label order
    train: ImageSet  # of the new classes; a learner's tasks may bring more images of old ones

    @property
    def num_new_classes(self) -> int:
        return len(self.class_names)

    @property
    def num_seen_classes(self) -> int:
        return self.num_old_classes + self.num_new_classes

    @property
    def new_labels(self) -> range:
        return range(self.num_old_classes, self.num_seen_classes)

    @property
    def known_labels(self) -> list[int]:
        """Labels of the old classes that the task brings more images of."""
        return self.train.labels[self.train.labels < self.num_old_classes].unique().tolist()


def count_visible(num_patches: int, mask_ratio: float) -> int:
    """V = floor(F * (1 - r)) for the decimal that was written: 25 patches at 0.8 leave 5, not 4."""
    if not 0 <= mask_ratio <= 1:
        raise ValueError(f"mask_ratio must lie between 0 and 1; got {mask_ratio}.")
    return int(num_patches * (1 - Decimal(str(mask_ratio))))


def patches_to_pixels(patches: ArrayT, size: tuple[int, int]) -> ArrayT:
    """One value per patch [..., GH, GW] as one value per pixel [..., H, W] of images of `size`."""
    down, across = size[0] // patches.shape[-2], size[1] // patches.shape[-1]
    if isinstance(patches, Tensor):
        return patches.repeat_interleave(down, dim=-2).repeat_interleave(across, dim=-1)
    return patches.repeat(down, axis=-2).repeat(across, axis=-1)


@dataclass(frozen=True)
class ArrayImages:
    """Images held in memory."""

    array: Tensor  # uint8 [N, H, W, C]
    is_lazy: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if self.array.dtype != torch.uint8 or self.array.ndim != 4:
            raise ValueError(
                f"ArrayImages holds uint8 [N, H, W, C]; got {self.array.dtype} "
                f"{list(self.array.shape)}"
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        height, width, channels = self.array.shape[1:]
        return height, width, channels

    def __len__(self) -> int:
        return len(self.array)

    def read(self, positions: Tensor, draws: Tensor | None = None) -> Tensor:
        chosen = self.array[positions]
        return chosen if draws is None else resized_crops(chosen, draws, self.shape[:2])

    def select(self, positions: Tensor) -> ArrayImages:
        return ArrayImages(self.array[positions])


# ----------------------------------------------------------------------------- random resized crops
# The one place that knows them: every `Images.read` with `draws` comes here.


def crop_box(width: int, height: int, draw: Sequence[float]) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a random crop: 8 to 100 % of the area, aspect 3:4 to 4:3.

    Args:
        draw: Four uniform numbers in [0, 1): area, aspect ratio, row, column.
    """
    area = height * width * (0.08 + 0.92 * draw[0])
    ratio = float(np.exp((2 * draw[1] - 1) * np.log(4 / 3)))
    box_width = min(width, max(1, round(float(np.sqrt(area * ratio)))))
    box_height = min(height, max(1, round(float(np.sqrt(area / ratio)))))
    top = int(draw[2] * (height - box_height + 1))
    left = int(draw[3] * (width - box_width + 1))
    return left, top, left + box_width, top + box_height


def resized_crop(image: np.ndarray, draw: Sequence[float], size: tuple[int, int]) -> np.ndarray:
    """A random resized crop of one uint8 image [H, W, C], bilinear, as uint8 [*size, C]."""
    left, top, right, bottom = crop_box(image.shape[1], image.shape[0], draw)
    window = image[top:bottom, left:right]
    picture = Image.fromarray(window[:, :, 0] if window.shape[2] == 1 else window)
    resized = np.asarray(picture.resize((size[1], size[0]), Image.Resampling.BILINEAR))
    return resized.reshape(*size, image.shape[2])


def resized_crops(images: Tensor, draws: Tensor, size: tuple[int, int]) -> Tensor:
    """`resized_crop` of each of uint8 [n, H, W, C], with `draws` [n, 4]: uint8 [n, *size, C]."""
    crops = np.empty((len(images), *size, images.shape[3]), np.uint8)
    for index, draw in enumerate(draws.tolist()):
        crops[index] = resized_crop(images[index].numpy(), draw, size)
    return torch.from_numpy(crops)
