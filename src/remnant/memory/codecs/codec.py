"""What the memory stores of an image, and the interface of everything that makes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from remnant.errors import InputError
from remnant.images import Shape
from remnant.settings import Settings

MAX_SIDE = 16_384  # pixels; no codec in use can store a longer side
MAX_PIXELS = 1 << 26  # bounds what a hostile file can make a decoder allocate for one image


@dataclass(frozen=True)
class Exemplar:
    """One stored image; `positions` tells which of its patches are known, where not all are."""

    payload: bytes
    positions: bytes = b""


class Codec(ABC):
    """Images of one shape to bytes and back; needs no model.

    The budget is spent by the sizes stated here: a codec whose payloads vary in length has
    `payload_bytes` None and pays `length_bytes` more for each exemplar.
    """

    config: Any  # each codec narrows it to its own
    payload_bytes: int | None = None
    position_bytes: int = 0
    grid: tuple[int, int] | None = None  # patches down and across; None: images come back whole
    tables: bytes = b""  # what all exemplars share: a function of config and image shape alone

    def __init__(self, config: Settings, image_shape: Shape) -> None:
        height, width, channels = image_shape
        is_sane = min(height, width) > 0 and max(height, width) <= MAX_SIDE
        if not is_sane or height * width > MAX_PIXELS or channels not in (1, 3):
            raise InputError(
                f"images must have sides of 1 to {MAX_SIDE:,}, at most {MAX_PIXELS:,} pixels "
                f"and 1 or 3 channels; got {height} x {width} x {channels}. Resize the images."
            )
        self.config = config
        self.image_shape = image_shape

    @property
    def image_bytes(self) -> int:
        height, width, channels = self.image_shape
        return height * width * channels

    @property
    def length_bytes(self) -> int:
        """What it costs to say how long one payload is."""
        if self.payload_bytes is not None:
            return 0
        return 2 if self.image_bytes < 1 << 15 else 4  # leaves room for payloads that expand

    @property
    def exemplar_bytes(self) -> int | None:
        """Payload and positions of every exemplar; None where they vary."""
        return None if self.payload_bytes is None else self.payload_bytes + self.position_bytes

    @abstractmethod
    def encode(self, image: np.ndarray, generator: torch.Generator) -> Exemplar:
        """Store a uint8 image [H, W, C]; only `generator` decides what is left out."""

    @abstractmethod
    def decode(self, exemplar: Exemplar) -> tuple[np.ndarray, np.ndarray | None]:
        """The image, uint8 [H, W, C] with 0 where unknown, and the known patches, bool [GH, GW].

        Raises:
            InputError: No image can have given these bytes.
        """

    def decode_many(
        self, exemplars: Sequence[Exemplar]
    ) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """What `decode` gives for each; a codec that is faster at many together overrides it."""
        return [self.decode(exemplar) for exemplar in exemplars]

    def known_patches(self, exemplar: Exemplar) -> np.ndarray | None:
        """What `decode` says of the patches; a codec that can tell without decoding overrides it.

        Raises:
            InputError: No image can have given these bytes.
        """
        return self.decode(exemplar)[1]

    def check(self, exemplar: Exemplar) -> None:
        """Refuse what `encode` cannot have made.

        Raises:
            InputError: A length or a bitmap is impossible.
        """
        if self.payload_bytes is not None and len(exemplar.payload) != self.payload_bytes:
            raise InputError(
                f"an exemplar must have {self.payload_bytes:,} bytes of payload; "
                f"got {len(exemplar.payload):,}."
            )
        if self.payload_bytes is None and len(exemplar.payload) >> (8 * self.length_bytes):
            raise InputError(
                f"an exemplar must be shorter than {1 << (8 * self.length_bytes):,} bytes; "
                f"got {len(exemplar.payload):,}."
            )
        if len(exemplar.positions) != self.position_bytes:
            raise InputError(
                f"an exemplar must have {self.position_bytes:,} bytes of positions; "
                f"got {len(exemplar.positions):,}."
            )
