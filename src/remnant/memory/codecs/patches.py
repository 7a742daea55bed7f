"""Which patches of an image are kept, and the codec that keeps them bit for bit.

Axes: H x W x C pixels, GH x GW patches of side P, F = GH * GW patches, V of them stored.
[bimae] Zhai et al., ICCV 2023.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Generic, Literal, TypeVar

import numpy as np
import torch
from pydantic import Field

from remnant.errors import InputError
from remnant.images import Shape, count_visible
from remnant.memory.codecs.codec import Candidate, Codec, CodecConfig, Exemplar


class MaskConfig(CodecConfig):
    """The size of a patch, and the share of patches that is left out."""

    patch_size: int = Field(default=4, ge=1)
    mask_ratio: float = Field(default=0.75, ge=0, lt=1)  # [bimae] r


class PatchesConfig(MaskConfig):
    """A random part of the patches, as they are, and a bitmap of which."""

    name: Literal["patches"] = "patches"


ConfigT = TypeVar("ConfigT", bound=MaskConfig)


def cut(image: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """Pixels of an image [H, W, C] as its patches [F, P, P, C], row by row; `join` undoes it."""
    (height, width, channels), (rows, columns) = image.shape, grid
    blocks = image.reshape(rows, height // rows, columns, width // columns, channels).swapaxes(1, 2)
    return blocks.reshape(rows * columns, *blocks.shape[2:])


def join(patches: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """Patches [F, P, P, C], row by row, as the pixels of an image [H, W, C]; `cut` undoes it."""
    (rows, columns), (_, height, width, channels) = grid, patches.shape
    blocks = patches.reshape(rows, columns, height, width, channels).swapaxes(1, 2)
    return blocks.reshape(rows * height, columns * width, channels)


class PatchGrid:
    """An image of one shape as patches, and how many of them are stored.

    Raises:
        InputError: The patches do not fill the image, or none would be stored.
    """

    def __init__(self, image_shape: Shape, side: int, mask_ratio: float) -> None:
        height, width, channels = image_shape
        if height % side or width % side:
            raise InputError(
                f"patch_size must divide the image height and width; got {side} for "
                f"{height} x {width} pixels. Set memory.codec.patch_size to a common divisor."
            )
        self.image_shape = image_shape
        self.side = side
        self.cells = (height // side, width // side)  # GH, GW
        self.num_patches = self.cells[0] * self.cells[1]
        self.num_visible = count_visible(self.num_patches, mask_ratio)
        self.patch_bytes = side * side * channels
        if self.num_visible == 0:
            raise InputError(
                f"mask_ratio must leave at least one of {self.num_patches} patches; got "
                f"{mask_ratio}. Lower memory.codec.mask_ratio."
            )

    def place(self, stored: np.ndarray, is_known: np.ndarray) -> np.ndarray:
        """The image [H, W, C] with the patches `stored` [V, P, P, C] where known, 0 elsewhere."""
        patches = np.zeros((self.num_patches, *stored.shape[1:]), dtype=np.uint8)
        patches[is_known] = stored
        return join(patches, self.cells)

    def draw(self, generator: torch.Generator) -> np.ndarray:
        """V different patches at random, bool [F]."""
        is_known = np.zeros(self.num_patches, dtype=bool)
        is_known[torch.randperm(self.num_patches, generator=generator)[: self.num_visible]] = True
        return is_known

    # ------------------------------------------------------------------------------------ bitmaps

    @property
    def bitmap_bytes(self) -> int:
        return (self.num_patches + 7) // 8

    def to_bitmap(self, is_known: np.ndarray) -> bytes:
        """Known patches, bool [F], as F bits in reading order, low bit first."""
        return np.packbits(is_known, bitorder="little").tobytes()

    def from_bitmap(self, bitmap: bytes) -> np.ndarray:
        """The inverse of `to_bitmap`."""
        bits = np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8), bitorder="little")
        return bits[: self.num_patches].astype(bool)

    def check_bitmap(self, bitmap: bytes) -> None:
        """Refuse a bitmap that `to_bitmap` cannot have made of V patches.

        Raises:
            InputError: It names too few or too many patches, or some that do not exist.
        """
        is_known = self.from_bitmap(bitmap)
        if is_known.sum() != self.num_visible or self.to_bitmap(is_known) != bitmap:
            raise InputError(
                f"the positions of an exemplar must name {self.num_visible} of "
                f"{self.num_patches} patches and nothing else."
            )


class PartialCodec(Codec, Generic[ConfigT]):
    """Parent of codecs that store some of the patches."""

    is_partial: ClassVar[bool] = True
    config: ConfigT

    def __init__(self, config: ConfigT, image_shape: Shape) -> None:
        super().__init__(config, image_shape)
        self.patches = PatchGrid(image_shape, config.patch_size, config.mask_ratio)
        self.grid = self.patches.cells
        self.num_visible = self.patches.num_visible

    @abstractmethod
    def find_known(self, positions: bytes) -> np.ndarray:
        """The patches that the positions of an exemplar name, bool [F]; V of them are true."""

    @abstractmethod
    def decode_patches(self, payload: bytes) -> np.ndarray:
        """The stored patches, uint8 [V, P, P, C], in reading order.

        Raises:
            InputError: No patches can have given these bytes.
        """

    def decode(self, exemplar: Exemplar) -> tuple[np.ndarray, np.ndarray | None]:
        return self.put_back(self.decode_patches(exemplar.payload), exemplar.positions)

    def put_back(self, stored: np.ndarray, positions: bytes) -> tuple[np.ndarray, np.ndarray]:
        """The image with its stored patches [V, P, P, C], and its known patches [GH, GW]."""
        is_known = self.find_known(positions)
        return self.patches.place(stored, is_known), is_known.reshape(self.patches.cells)

    def known_patches(self, exemplar: Exemplar) -> np.ndarray:
        return self.find_known(exemplar.positions).reshape(self.patches.cells)


class PatchCodec(PartialCodec[PatchesConfig]):
    """Stores V patches of an image, in reading order, and a bitmap of where they were.

    Departs from [bimae], which names an index per patch: a bitmap of F bits is smaller.
    """

    Config = PatchesConfig
    trial_settings = ({"mask_ratio": 0.75},)

    def __init__(self, config: PatchesConfig, image_shape: Shape) -> None:
        super().__init__(config, image_shape)
        self.payload_bytes = self.num_visible * self.patches.patch_bytes
        self.position_bytes = self.patches.bitmap_bytes

    def encode(self, candidate: Candidate, generator: torch.Generator) -> Exemplar:
        is_known = self.patches.draw(generator)
        payload = cut(candidate.image, self.patches.cells)[is_known].tobytes()
        return Exemplar(payload, self.patches.to_bitmap(is_known))

    def find_known(self, positions: bytes) -> np.ndarray:
        return self.patches.from_bitmap(positions)

    def decode_patches(self, payload: bytes) -> np.ndarray:
        side = self.patches.side
        return np.frombuffer(payload, dtype=np.uint8).reshape(self.num_visible, side, side, -1)

    def check(self, exemplar: Exemplar) -> None:
        super().check(exemplar)
        self.patches.check_bitmap(exemplar.positions)
