"""The patch codec: a random quarter (by default) of an image's patches, bit for bit.

Axes: H x W x C pixels, GH x GW patches of side P, F = GH * GW patches, V of them stored.
[bimae] Zhai et al., ICCV 2023.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Literal

import numpy as np
import torch
from pydantic import Field

from remnant.contracts import InputError, Settings
from remnant.memory.exemplars import Codec, Exemplar


class PatchesConfig(Settings):
    """Which share of the patches is left out, and how large a patch is."""

    name: Literal["patches"] = "patches"
    patch_size: int = Field(default=4, ge=1)
    mask_ratio: float = Field(default=0.75, ge=0, lt=1)  # [bimae] r


def count_visible(num_patches: int, mask_ratio: float) -> int:
    """V = floor(F * (1 - r)) for the decimal that was written: 25 patches at 0.8 leave 5."""
    return floor(num_patches * (1 - Fraction(str(mask_ratio))))


class PatchCodec(Codec):
    """Stores V patches of an image, in reading order, and a bitmap of where they were.

    Departs from [bimae], which names an index per patch: a bitmap of F bits is smaller.
    """

    def __init__(self, config: PatchesConfig, image_shape: tuple[int, int, int]) -> None:
        super().__init__(image_shape)
        height, width, channels = image_shape
        size = config.patch_size
        if height % size or width % size:
            raise InputError(
                f"patch_size must divide the image height and width; got {size} for "
                f"{height} x {width} pixels. Set memory.codec.patch_size to a common divisor."
            )
        self.patch_size = size
        self.grid = (height // size, width // size)
        self.num_patches = self.grid[0] * self.grid[1]
        self.num_visible = count_visible(self.num_patches, config.mask_ratio)
        if self.num_visible == 0:
            raise InputError(
                f"mask_ratio must leave at least one of {self.num_patches} patches; got "
                f"{config.mask_ratio}. Lower memory.codec.mask_ratio."
            )
        self.payload_bytes = self.num_visible * size * size * channels
        self.position_bytes = (self.num_patches + 7) // 8

    def encode(self, image: np.ndarray, generator: torch.Generator) -> Exemplar:
        is_known = np.zeros(self.num_patches, dtype=bool)
        is_known[torch.randperm(self.num_patches, generator=generator)[: self.num_visible]] = True
        payload = self._patchify(image)[is_known].tobytes()
        return Exemplar(payload, np.packbits(is_known, bitorder="little").tobytes())

    def decode(self, exemplar: Exemplar) -> tuple[np.ndarray, np.ndarray | None]:
        assert self.grid is not None
        is_known = self._bits(exemplar.positions)[: self.num_patches].astype(bool)
        patches = np.zeros((self.num_patches, self._patch_bytes), dtype=np.uint8)
        stored = np.frombuffer(exemplar.payload, dtype=np.uint8)
        patches[is_known] = stored.reshape(self.num_visible, self._patch_bytes)
        return self._unpatchify(patches), is_known.reshape(self.grid)

    def check(self, exemplar: Exemplar) -> None:
        super().check(exemplar)
        bits = self._bits(exemplar.positions)
        if bits[: self.num_patches].sum() != self.num_visible or bits[self.num_patches :].any():
            raise InputError(
                f"the positions of an exemplar must name {self.num_visible} of "
                f"{self.num_patches} patches and nothing else."
            )

    @property
    def _patch_bytes(self) -> int:
        return self.patch_size * self.patch_size * self.image_shape[2]

    def _bits(self, positions: bytes) -> np.ndarray:
        return np.unpackbits(np.frombuffer(positions, dtype=np.uint8), bitorder="little")

    def _patchify(self, image: np.ndarray) -> np.ndarray:
        """Pixels of an image [H, W, C] as its patches [F, P*P*C], in reading order."""
        assert self.grid is not None
        size, channels = self.patch_size, self.image_shape[2]
        blocks = image.reshape(self.grid[0], size, self.grid[1], size, channels)
        return blocks.transpose(0, 2, 1, 3, 4).reshape(self.num_patches, -1)

    def _unpatchify(self, patches: np.ndarray) -> np.ndarray:
        """Patches [F, P*P*C], in reading order, as the pixels of their image [H, W, C]."""
        assert self.grid is not None
        size, channels = self.patch_size, self.image_shape[2]
        blocks = patches.reshape(*self.grid, size, size, channels)
        return blocks.transpose(0, 2, 1, 3, 4).reshape(self.image_shape)
