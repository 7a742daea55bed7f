"""Coded patches: a random quarter (by default) of an image's patches, through an image codec.

The patches stand side by side in a mosaic, as square as their number allows. Where they were takes
two bytes: the seed of a fixed hash that ranks the patches of an image.

Axes: F patches of side P, V of them stored, R x S cells of the mosaic.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Literal

import numpy as np
import torch
from pydantic import field_validator

from remnant.images import Shape
from remnant.memory.codecs.codec import Candidate, Exemplar
from remnant.memory.codecs.patches import MaskConfig, PartialCodec, cut, join
from remnant.memory.codecs.picture_codec import RatedCoder, find_coder
from remnant.memory.codecs.rates import RateConfig

_SEED_BYTES = 2
_SEED_STRIDE = 1 << 32  # no image has as many patches, so no two seeds share a hash


class CodedPatchesConfig(MaskConfig, RateConfig):
    """A random part of the patches, through an image codec, and the seed that chose them."""

    name: Literal["coded-patches"] = "coded-patches"
    through: str = "transform"  # a codec that shares its coder
    positions: Literal["seed", "bitmap"] = "seed"  # how the file says which patches are known

    @field_validator("through")
    @classmethod
    def _check_through(cls, name: str) -> str:
        find_coder(name)
        return name


class CodedPatchCodec(PartialCodec[CodedPatchesConfig]):
    """Stores V patches of an image as one coded mosaic."""

    Config = CodedPatchesConfig
    trial_settings = tuple(
        {"through": through, "quality": quality}
        for through in ("transform", "jpeg", "webp")
        for quality in (50, 75, 90)
    )

    def __init__(self, config: CodedPatchesConfig, image_shape: Shape) -> None:
        super().__init__(config, image_shape)
        self.mosaic = Mosaic(self.num_visible, config.patch_size, image_shape[2])
        coder = find_coder(config.through).for_mosaic(self.mosaic.shape, config.patch_size)
        self.coder = RatedCoder(coder, config)
        self.tables = self.coder.tables
        is_seed = config.positions == "seed"
        self.position_bytes = _SEED_BYTES if is_seed else self.patches.bitmap_bytes

    def encode(self, candidate: Candidate, generator: torch.Generator) -> Exemplar:
        positions = self._draw(generator)
        stored = cut(candidate.image, self.patches.cells)[self.find_known(positions)]
        return Exemplar(self.coder.encode(self.mosaic.lay(stored)), positions)

    def find_known(self, positions: bytes) -> np.ndarray:
        return self.find_many_known([positions])[0]

    def find_many_known(self, positions: Sequence[bytes]) -> np.ndarray:
        if self.config.positions == "bitmap":
            return np.atleast_2d(self.patches.from_bitmap(*positions))
        seeds = np.frombuffer(b"".join(positions), dtype=f">u{_SEED_BYTES}")
        return choose_patches(seeds, self.patches.num_patches, self.num_visible)

    def decode_patches(self, payload: bytes) -> np.ndarray:
        return self.mosaic.take_apart(self.coder.decode(payload))

    def decode_many_patches(self, payloads: Sequence[bytes]) -> np.ndarray:
        return self.mosaic.take_apart(np.stack(self.coder.decode_many(payloads)))

    def check(self, exemplar: Exemplar) -> None:
        super().check(exemplar)
        if self.config.positions == "bitmap":
            self.patches.check_bitmap(exemplar.positions)

    def _draw(self, generator: torch.Generator) -> bytes:
        if self.config.positions == "bitmap":
            return self.patches.to_bitmap(self.patches.draw(generator))
        seed = torch.randint(1 << 8 * _SEED_BYTES, (), generator=generator)
        return int(seed).to_bytes(_SEED_BYTES)


class Mosaic:
    """V patches as one picture; cells that are left over repeat the last patch."""

    def __init__(self, num_patches: int, side: int, channels: int) -> None:
        self.num_patches, self.side = num_patches, side
        self.columns = isqrt(num_patches - 1) + 1
        self.rows = -(-num_patches // self.columns)
        self.shape: Shape = (self.rows * side, self.columns * side, channels)

    def lay(self, patches: np.ndarray) -> np.ndarray:
        """Patches [V, P, P, C] as a picture [R*P, S*P, C]."""
        num_spare = self.rows * self.columns - self.num_patches
        cells = np.concatenate([patches, patches[-1:].repeat(num_spare, axis=0)])
        return join(cells, (self.rows, self.columns))

    def take_apart(self, pictures: np.ndarray) -> np.ndarray:
        """Pictures [..., R*P, S*P, C] as their patches [..., V, P, P, C]."""
        cells = cut(pictures, (self.rows, self.columns))
        return cells[..., : self.num_patches, :, :, :]


def choose_patches(seeds: np.ndarray, num_patches: int, count: int) -> np.ndarray:
    """The `count` patches, bool [..., F], that each of the seeds [...] of 16 bits stands for.

    They are the patches f with the smallest splitmix64(seed * 2^32 + f), a hash of 64-bit integers
    that is the same everywhere; files depend on it, so it must never change. No two are equal.
    """
    firsts = np.asarray(seeds).astype(np.uint64)[..., None] * np.uint64(_SEED_STRIDE)
    keys = _splitmix64(firsts + np.arange(num_patches, dtype=np.uint64))
    return keys <= np.partition(keys, count - 1, axis=-1)[..., count - 1 : count]


def _splitmix64(numbers: np.ndarray) -> np.ndarray:
    """The output function of the generator of that name (Steele et al., OOPSLA 2014), mod 2^64."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
