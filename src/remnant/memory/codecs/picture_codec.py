"""Pictures of one shape to bytes and back: what the lossy codecs have in common.

A *coder* knows one image format and a quality; a *codec* decides which picture it gives the coder
(the image, a smaller one, a mosaic of patches) and keeps to the rate of its config.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np
import torch

from remnant.errors import InputError, nearest
from remnant.images import Shape
from remnant.memory.codecs.codec import CODECS, Candidate, Codec, Exemplar
from remnant.memory.codecs.rates import (
    MAX_QUALITY,
    MIN_QUALITY,
    RateConfig,
    highest_passing,
    lowest_passing,
)
from remnant.metrics import psnr

BytesT = TypeVar("BytesT", bytes, memoryview)
ConfigT = TypeVar("ConfigT", bound=RateConfig)


class Coder(ABC):
    """Codes uint8 pictures [H, W, C] of one shape; the same picture gives the same bytes."""

    has_quality_inside: bool = True  # in the payload; False: `decode` needs to know it

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    @classmethod
    def for_mosaic(cls, shape: Shape, patch_size: int) -> Self:
        """A coder for pictures made of patches from different places."""
        return cls(shape)

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

    def decode_many(self, payloads: Sequence[bytes], quality: int) -> Sequence[np.ndarray]:
        """What `decode` gives for each; override it where many together are faster."""
        return [self.decode(payload, quality) for payload in payloads]

    def preview(self, picture: np.ndarray, quality: int) -> np.ndarray:
        """What would be decoded; override it where that is known without encoding."""
        return self.decode(self.encode(picture, quality), quality)


class RatedCoder:
    """A coder held to a rate; with a target, each payload begins with its quality if it must."""

    def __init__(self, coder: Coder, rate: RateConfig) -> None:
        if rate.quality == "auto":
            raise InputError(
                "a codec needs a number as its quality; auto is for a memory, which has a budget."
            )
        self.coder = coder
        self.rate = rate
        self._has_target = rate.target_bytes is not None or rate.target_psnr is not None
        self._has_quality_byte = self._has_target and not coder.has_quality_inside
        self._quality = rate.quality or MAX_QUALITY  # without a target; lossless coders ignore it
        self.tables = coder.tables(self._quality)

    def encode(self, picture: np.ndarray) -> bytes:
        quality = self._search(picture) if self._has_target else self._quality
        payload = self.coder.encode(picture, quality)
        return bytes([quality]) + payload if self._has_quality_byte else payload

    def decode(self, payload: bytes) -> np.ndarray:
        return self.coder.decode(*self._open(payload))

    def decode_many(self, payloads: Sequence[bytes]) -> list[np.ndarray]:
        """What `decode` gives for each."""
        opened = [self._open(payload) for payload in payloads]
        pictures: dict[int, np.ndarray] = {}
        for quality in {quality for _, quality in opened}:
            same = [index for index, (_, other) in enumerate(opened) if other == quality]
            decoded = self.coder.decode_many([opened[index][0] for index in same], quality)
            pictures |= zip(same, decoded, strict=True)
        return [pictures[index] for index in range(len(payloads))]

    def _open(self, payload: bytes) -> tuple[bytes, int]:
        """What the coder wrote, and at which quality."""
        if not self._has_quality_byte:
            return payload, self._quality
        quality = payload[0] if payload else 0
        if not MIN_QUALITY <= quality <= MAX_QUALITY:
            raise InputError(
                f"an exemplar must begin with a quality from {MIN_QUALITY} to {MAX_QUALITY}; got "
                f"{quality}."
            )
        return payload[1:], quality

    def _search(self, picture: np.ndarray) -> int:
        if self.rate.target_bytes is not None:
            room = self.rate.target_bytes - self._has_quality_byte
            return highest_passing(lambda quality: len(self.coder.encode(picture, quality)) <= room)
        return lowest_passing(partial(self._reaches_psnr, picture))

    def _reaches_psnr(self, picture: np.ndarray, quality: int) -> bool:
        assert self.rate.target_psnr is not None, "a target of bytes is searched for otherwise"
        score = psnr(picture, self.coder.preview(picture, quality))
        return float(score) >= self.rate.target_psnr


class PictureCodec(Codec, Generic[ConfigT]):
    """Stores whole images through a coder."""

    # The coder that other codecs may store their pictures `through`, by the name of this codec.
    shared_coder: ClassVar[type[Coder] | None] = None
    config: ConfigT

    def __init__(self, config: ConfigT, image_shape: Shape) -> None:
        super().__init__(config, image_shape)
        self.coder = RatedCoder(self.build_coder(), config)
        self.tables = self.coder.tables

    @abstractmethod
    def build_coder(self) -> Coder:
        """The coder for the pictures that this codec makes of images."""

    def encode(self, candidate: Candidate, generator: torch.Generator) -> Exemplar:
        return Exemplar(self.coder.encode(candidate.image))

    def decode(self, exemplar: Exemplar) -> tuple[np.ndarray, np.ndarray | None]:
        return self.restore(self.coder.decode(exemplar.payload)), None

    def decode_many(
        self, exemplars: Sequence[Exemplar]
    ) -> list[tuple[np.ndarray, np.ndarray | None]]:
        pictures = self.coder.decode_many([exemplar.payload for exemplar in exemplars])
        return [(self.restore(picture), None) for picture in pictures]

    def restore(self, picture: np.ndarray) -> np.ndarray:
        """The image of which the coder got `picture`."""
        return picture


def find_coder(name: str, **more: type[Coder]) -> type[Coder]:
    """The coder that the codec `name` shares, or one of `more`.

    Raises:
        InputError: There is none of this name.
    """
    found = more.get(name) or _shared_coder(CODECS.get(name))
    if found is not None:
        return found
    known = [*more, *(other for other, codec in CODECS.items() if _shared_coder(codec))]
    raise InputError(
        f"memory.codec.through must be one of {', '.join(known)}; got {name!r}."
        + nearest(name, known)
    )


def _shared_coder(codec: type[Codec] | None) -> type[Coder] | None:
    return codec.shared_coder if codec and issubclass(codec, PictureCodec) else None


def pack_number(number: int) -> bytes:
    """A number in groups of 7 bits, lowest first; the top bit says that another follows."""
    groups = [number & 0x7F]
    while number := number >> 7:
        groups[-1] |= 0x80
        groups.append(number & 0x7F)
    return bytes(groups)


def unpack_number(payload: BytesT, max_bits: int) -> tuple[int, BytesT]:
    """The number at the start of a payload and what follows it.

    Raises:
        InputError: The number does not end, or has more than `max_bits` bits.
    """
    number = 0
    for index, group in enumerate(payload[: -(-max_bits // 7)]):
        number |= (group & 0x7F) << 7 * index
        if group < 0x80 and number < 1 << max_bits:
            return number, payload[index + 1 :]
    raise InputError(f"an exemplar must begin with a number of at most {max_bits} bits.")
