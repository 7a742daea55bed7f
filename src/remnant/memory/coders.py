"""Pictures of one shape to bytes and back: what the lossy codecs have in common.

A *coder* knows one image format and a quality; a *codec* decides which picture it gives the coder
(the image, a smaller one, a mosaic of patches) and keeps to the rate of its config.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Generic, Self, TypeVar

import numpy as np
import torch

from remnant.contracts import InputError
from remnant.memory.exemplars import Codec, Exemplar
from remnant.memory.rates import (
    MAX_QUALITY,
    MIN_QUALITY,
    RateConfig,
    highest_passing,
    lowest_passing,
    psnr,
)

Shape = tuple[int, int, int]
ConfigT = TypeVar("ConfigT", bound=RateConfig)


class Coder(ABC):
    """Codes uint8 pictures [H, W, C] of one shape; the same picture gives the same bytes."""

    tells_quality: bool = True  # the payload does; False: `decode` must be told

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def tables(self, quality: int) -> bytes:
        """What every payload of this quality would begin with, were it not stripped."""
        return b""

    @abstractmethod
    def encode(self, picture: np.ndarray, quality: int) -> bytes:
        """The bytes of a picture at a quality from 1 to 100, without what can be rebuilt."""

    @abstractmethod
    def decode(self, payload: bytes, quality: int) -> np.ndarray:
        """The inverse, as far as the quality goes.

        Raises:
            InputError: No picture can have given these bytes.
        """


class RatedCoder:
    """A coder held to a rate; with a target, a payload says its own quality if it must."""

    def __init__(self, coder: Coder, rate: RateConfig) -> None:
        self.coder = coder
        self.rate = rate
        self._has_target = rate.target_bytes is not None or rate.target_psnr is not None
        self._has_quality_byte = self._has_target and not coder.tells_quality
        self._quality = rate.quality or MAX_QUALITY  # without a target; lossless coders ignore it
        self.tables = coder.tables(self._quality)

    def encode(self, picture: np.ndarray) -> bytes:
        quality = self._search(picture) if self._has_target else self._quality
        payload = self.coder.encode(picture, quality)
        return bytes([quality]) + payload if self._has_quality_byte else payload

    def decode(self, payload: bytes) -> np.ndarray:
        if not self._has_quality_byte:
            return self.coder.decode(payload, self._quality)
        quality = payload[0] if payload else 0
        if not MIN_QUALITY <= quality <= MAX_QUALITY:
            raise InputError(
                f"an exemplar must say a quality from {MIN_QUALITY} to {MAX_QUALITY}; got "
                f"{quality}."
            )
        return self.coder.decode(payload[1:], quality)

    def _search(self, picture: np.ndarray) -> int:
        if self.rate.target_bytes is not None:
            room = self.rate.target_bytes - self._has_quality_byte
            return highest_passing(lambda quality: len(self.coder.encode(picture, quality)) <= room)
        return lowest_passing(partial(self._reaches_psnr, picture))

    def _reaches_psnr(self, picture: np.ndarray, quality: int) -> bool:
        assert self.rate.target_psnr is not None, "a target of bytes is searched for otherwise"
        decoded = self.coder.decode(self.coder.encode(picture, quality), quality)
        return psnr(picture, decoded) >= self.rate.target_psnr


class PictureCodec(Codec, Generic[ConfigT]):
    """Stores whole images through a coder."""

    config: ConfigT

    def __init__(self, config: ConfigT, image_shape: Shape) -> None:
        super().__init__(config, image_shape)
        self.coder = RatedCoder(self.build_coder(), config)
        self.tables = self.coder.tables

    @abstractmethod
    def build_coder(self) -> Coder:
        """The coder for the pictures that this codec makes of images."""

    def encode(self, image: np.ndarray, generator: torch.Generator) -> Exemplar:
        return Exemplar(self.coder.encode(image))

    def decode(self, exemplar: Exemplar) -> tuple[np.ndarray, np.ndarray | None]:
        return self.coder.decode(exemplar.payload), None

    def weaker(self) -> Self | None:
        config = self.config.weaker()
        return None if config is None else type(self)(config, self.image_shape)
