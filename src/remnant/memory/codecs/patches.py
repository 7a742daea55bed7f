"""Which patches of an image are kept, and the codec that keeps them bit for bit.

Axes: H x W x C pixels, GH x GW patches of side P, F = GH * GW patches, V of them stored.
[bimae] Zhai et al., ICCV 2023.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, Literal, TypeVar

import numpy as np
import torch
from pydantic import Field

from remnant.errors import InputError
from remnant.images import Shape, count_visible
from remnant.memory.codecs.codec import Candidate, Codec, CodecConfig, Exemplar


class MaskConfig(CodecConfig):
    """The size of a patch, and the share of patches that is left out."""

    patch_size: int = Field(default=4, ge=1)  # px; [bimae] on CIFAR-100
    mask_ratio: float = Field(default=0.75, ge=0, lt=1)  # [bimae] r


class PatchesConfig(MaskConfig):
    """A random part of the patches, as they are, and a bitmap of which."""

    name: Literal["patches"] = "patches"


ConfigT = TypeVar("ConfigT", bound=MaskConfig)


def cut(images: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """Pixels [..., H, W, C] as patches [..., F, P, P, C], row by row; `join` undoes it."""
    (*many, height, width, channels), (rows, columns) = images.shape, grid
    down, across = height // rows, width // columns
    blocks = images.reshape(*many, rows, down, columns, across, channels).swapaxes(-4, -3)
    return blocks.reshape(*many, rows * columns, down, across, channels)


def join(patches: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """Patches [..., F, P, P, C], row by row, as pixels [..., H, W, C]; `cut` undoes it."""
    (rows, columns), (*many, _, down, across, channels) = grid, patches.shape
    blocks = patches.reshape(*many, rows, columns, down, across, channels).swapaxes(-4, -3)
    return blocks.reshape(*many, rows * down, columns * across, channels)


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
        """Images [..., H, W, C] with the patches `stored` [..., V, P, P, C] where `is_known`.

        Known are V patches of each, bool [..., F]; the others are 0.
        """
        patches = np.zeros((*is_known.shape, *stored.shape[-3:]), dtype=np.uint8)
        patches[is_known] = stored.reshape(-1, *stored.shape[-3:])
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

    def from_bitmap(self, *bitmaps: bytes) -> np.ndarray:
        """The inverse of `to_bitmap`: of one bitmap, bool [F]; of N, [N, F]."""
        rows = np.frombuffer(b"".join(bitmaps), dtype=np.uint8).reshape(len(bitmaps), -1)
        bits = np.unpackbits(rows, axis=1, count=self.num_patches, bitorder="little").astype(bool)
        return bits if len(bitmaps) > 1 else bits[0]

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
    keeps_pixels: ClassVar[bool] = False  # what is stored is given back unchanged
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

    def find_many_known(self, positions: Sequence[bytes]) -> np.ndarray:
        """What `find_known` gives for each, [N, F]; override it where many are faster."""
        return np.stack([self.find_known(one) for one in positions])

    def decode_many_patches(self, payloads: Sequence[bytes]) -> np.ndarray:
        """What `decode_patches` gives for each, [N, V, P, P, C]; likewise."""
        return np.stack([self.decode_patches(payload) for payload in payloads])

    def decode(self, exemplar: Exemplar) -> tuple[np.ndarray, np.ndarray | None]:
        is_known = self.find_known(exemplar.positions)
        image = self.patches.place(self.decode_patches(exemplar.payload), is_known)
        return image, is_known.reshape(self.patches.cells)

    def decode_many(
        self, exemplars: Sequence[Exemplar]
    ) -> list[tuple[np.ndarray, np.ndarray | None]]:
        if not exemplars:
            return []
        is_known = self.find_many_known([exemplar.positions for exemplar in exemplars])
        stored = self.decode_many_patches([exemplar.payload for exemplar in exemplars])
        images = self.patches.place(stored, is_known)
        return list(zip(images, is_known.reshape(-1, *self.patches.cells), strict=True))

    def known_patches(self, exemplar: Exemplar) -> np.ndarray:
        return self.find_known(exemplar.positions).reshape(self.patches.cells)


class PatchCodec(PartialCodec[PatchesConfig]):
    """Stores V patches of an image, in reading order, and a bitmap of where they were.

    Departs from [bimae], which names an index per patch: a bitmap of F bits is smaller.
    """

    Config = PatchesConfig
    keeps_pixels: ClassVar[bool] = True
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

    def find_many_known(self, positions: Sequence[bytes]) -> np.ndarray:
        return np.atleast_2d(self.patches.from_bitmap(*positions))

    def decode_patches(self, payload: bytes) -> np.ndarray:
        side = self.patches.side
        return np.frombuffer(payload, dtype=np.uint8).reshape(self.num_visible, side, side, -1)

    def check(self, exemplar: Exemplar) -> None:
        super().check(exemplar)
        self.patches.check_bitmap(exemplar.positions)
