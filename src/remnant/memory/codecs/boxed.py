"""A box of the image as it is, and the rest of the image down-scaled.

[cim] Luo et al., CVPR 2023.

Axes: H x W pixels, C channels; GH x GW squares of `factor` pixels a side, smaller at the far edges.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from pydantic import Field

from remnant.errors import InputError
from remnant.images import Shape
from remnant.memory.codecs.codec import Candidate, Codec, CodecConfig, Exemplar

Box = tuple[int, int, int, int]  # top, left, height and width


class BoxedConfig(CodecConfig):
    """What matters of an image as it is, and the rest smaller by a factor."""

    name: Literal["boxed"] = "boxed"
    factor: int = Field(default=2, ge=2)  # of both sides
    # Of both sides: the box in the middle of an image that comes without one. Chosen.
    middle_ratio: float = Field(default=0.5, gt=0, le=1)


class BoxedCodec(Codec):
    """Stores where the box is, its pixels, and the mean of each square that is not all within it.

    An exemplar of which the share r is box takes about r + (1 - r) / factor^2 of an image.

    Departs from [cim]: a square is its mean; published, it is one of its pixels.
    Departs from [cim]: the four numbers that say where the box is are counted.
    """

    Config = BoxedConfig
    config: BoxedConfig
    trial_settings = ({"factor": 2}, {"factor": 4})

    def __init__(self, config: BoxedConfig, image_shape: Shape) -> None:
        super().__init__(config, image_shape)
        self._number = np.dtype("u1" if max(image_shape[:2]) < 256 else "<u2")

    def encode(self, candidate: Candidate, generator: torch.Generator) -> Exemplar:
        image, box = candidate.image, candidate.box or self._middle()
        if not self._is_inside(box):
            raise InputError(
                f"a box must lie within an image of {image.shape[0]} x {image.shape[1]} pixels; "
                f"got top, left, height and width {box}."
            )
        top, left, height, width = box
        crop = image[top : top + height, left : left + width]
        small = shrink(image, self.config.factor)[~self._is_covered(box)]  # [squares, C]
        numbers = np.array(box, dtype=self._number)
        return Exemplar(numbers.tobytes() + crop.tobytes() + small.tobytes())

    def decode(self, exemplar: Exemplar) -> tuple[np.ndarray, np.ndarray | None]:
        payload, start = exemplar.payload, 4 * self._number.itemsize
        if len(payload) < start:
            raise InputError(f"an exemplar must have {start} bytes for its box.")
        numbers = np.frombuffer(payload[:start], dtype=self._number)
        top, left, height, width = box = tuple(int(number) for number in numbers)
        if not self._is_inside(box):
            raise InputError(f"an exemplar must have its box inside the image; got {box}.")
        channels, is_open = self.image_shape[2], ~self._is_covered(box)
        num_crop, num_small = height * width * channels, int(is_open.sum()) * channels
        if len(payload) != start + num_crop + num_small:
            raise InputError(
                f"an exemplar with this box must have {start + num_crop + num_small:,} bytes; got "
                f"{len(payload):,}."
            )
        pixels = np.frombuffer(payload, dtype=np.uint8, offset=start)
        small = np.zeros((*is_open.shape, channels), dtype=np.uint8)
        small[is_open] = pixels[num_crop:].reshape(-1, channels)
        image = enlarge(small, self.config.factor, self.image_shape)
        image[top : top + height, left : left + width] = pixels[:num_crop].reshape(
            height, width, channels
        )
        return image, None

    def _middle(self) -> Box:
        height, width, _ = self.image_shape
        inner = [max(1, round(self.config.middle_ratio * side)) for side in (height, width)]
        return (height - inner[0]) // 2, (width - inner[1]) // 2, inner[0], inner[1]

    def _is_inside(self, box: tuple[int, ...]) -> bool:
        top, left, height, width = box
        has_pixels = min(height, width) >= 1 and min(top, left) >= 0
        return has_pixels and (
            top + height <= self.image_shape[0] and left + width <= self.image_shape[1]
        )

    def _is_covered(self, box: tuple[int, ...]) -> np.ndarray:
        """Which squares have all their pixels in the box: bool [GH, GW]."""
        sides = []
        for side, first, length in zip(self.image_shape[:2], box[:2], box[2:], strict=True):
            starts = np.arange(0, side, self.config.factor)
            ends = np.minimum(starts + self.config.factor, side)
            sides.append((starts >= first) & (ends <= first + length))
        return sides[0][:, None] & sides[1]


def shrink(image: np.ndarray, factor: int) -> np.ndarray:
    """Means of squares, uint8 [H, W, C] -> [GH, GW, C]; in integers, so everywhere alike."""
    rows, columns = (np.arange(0, side, factor) for side in image.shape[:2])
    sums = np.add.reduceat(image.astype(np.uint32), rows, axis=0)
    sums = np.add.reduceat(sums, columns, axis=1)
    down = np.diff(rows, append=image.shape[0])[:, None, None]
    across = np.diff(columns, append=image.shape[1])[None, :, None]
    counts = down * across
    return ((sums + counts // 2) // counts).astype(np.uint8)


def enlarge(small: np.ndarray, factor: int, shape: Shape) -> np.ndarray:
    """Each square filled with its colour, uint8 [GH, GW, C] -> [H, W, C]."""
    factor = min(factor, max(shape[:2]))  # a file may ask for any
    whole = small.repeat(factor, axis=0).repeat(factor, axis=1)
    return np.ascontiguousarray(whole[: shape[0], : shape[1]])
