"""What a codec gets and stores, the interface of all codecs, and the table of them by name."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from remnant.errors import InputError
from remnant.images import Shape
from remnant.long_rows import Piece, ScratchFile
from remnant.registry import Registry
from remnant.settings import Settings

MAX_SIDE = 16_384  # pixels; no codec in use can store a longer side
MAX_PIXELS = 1 << 24  # bounds what a hostile file can make a decoder allocate for one image


class CodecConfig(Settings):
    """The settings of a codec, which is chosen by `name`."""

    if TYPE_CHECKING:
        # Each codec declares its own. As a field of this class it would come first, and the order
        # of settings is part of what a checkpoint is checked against.
        name: Any

    @classmethod
    def chosen_by(cls, value: Any) -> type[Settings]:
        name = value.get("name") if isinstance(value, Mapping) else value
        return cls if name is None else CODECS.find(name, "memory.codec").Config


@dataclass(frozen=True, eq=False)
class Candidate:
    """An image that may be stored, and what the method that offers it knows of it.

    Codecs that have no use for a box ignore it; those that have one must do without where a method
    gives none. Side data are stored as they are, whatever the codec.
    """

    image: np.ndarray  # uint8 [H, W, C]
    box: tuple[int, int, int, int] | None = None  # top, left, height and width of what matters
    side: bytes = b""  # to be kept with the image, such as its scores; the memory counts them


@dataclass(frozen=True, slots=True, eq=False)
class Exemplar:
    """One stored image; `positions` says which of its patches are known, where not all are.

    A codec makes payload and positions. The memory adds the side data of the candidate. It may keep
    the payload in a file, from which it is read as often as it is asked for.
    """

    content: Piece  # the payload, or where it is
    positions: bytes = b""
    side: bytes = b""

    @property
    def payload(self) -> bytes:
        return bytes(self.content)

    @property
    def payload_size(self) -> int:
        return len(self.content)

    def filed(self, scratch: ScratchFile) -> Exemplar:
        """The same exemplar with a payload that is not in memory, but in a file."""
        if not isinstance(self.content, bytes):
            return self
        return replace(self, content=scratch.append(self.content))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exemplar) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)

    @property
    def _values(self) -> tuple[bytes, bytes, bytes]:
        return self.payload, self.positions, self.side

    def digest(self) -> str:
        """SHA-256 of the image as it is stored, by which it is known wherever it is moved."""
        return hashlib.sha256(self.payload + self.positions).hexdigest()


class Codec(ABC):
    """Images of one shape to bytes and back; needs no model.

    A codec is one file: settings with a name, and a class with `encode` and `decode`.

        class FlatConfig(CodecConfig):
            '''The mean colour of an image.'''  # the line that `remnant list codecs` shows

            name: Literal["flat"] = "flat"


        class FlatCodec(Codec):
            Config = FlatConfig

            def __init__(self, config: FlatConfig, image_shape: Shape) -> None:
                super().__init__(config, image_shape)
                self.payload_bytes = image_shape[2]

            def encode(self, candidate: Candidate, generator: torch.Generator) -> Exemplar:
                return Exemplar(candidate.image.mean(axis=(0, 1)).astype(np.uint8).tobytes())

            def decode(self, exemplar: Exemplar) -> tuple[np.ndarray, None]:
                colour = np.frombuffer(exemplar.payload, np.uint8)
                return np.full(self.image_shape, colour), None

    `CODECS.register(FlatCodec)`, or an entry point `remnant.codecs` of a package, makes
    `memory.codec=flat` work everywhere. What must hold:

    - The budget is spent by the sizes stated here. Where payloads vary in length, `payload_bytes`
      stays None, and each exemplar pays `length_bytes` more.
    - Equal candidates, settings and draws from `generator` give equal bytes, and equal bytes decode
      to equal images on any machine.
    - `decode` takes any bytes that `check` lets through: it gives an image or raises InputError.
    - A codec that stores some of the patches derives from `PartialCodec`, one that stores whole
      pictures with a quality from `PictureCodec`.
    """

    Config: ClassVar[type[CodecConfig]]
    is_partial: ClassVar[bool] = False  # stores some patches; its settings are a `MaskConfig`
    # What `remnant plan` tries; settings that are left out have their defaults.
    trial_settings: ClassVar[Sequence[Mapping[str, Any]]] = ({},)

    config: Any  # each codec narrows it to its own
    payload_bytes: int | None = None
    position_bytes: int = 0
    grid: tuple[int, int] | None = None  # patches down and across; None: images come back whole
    tables: bytes = b""  # what all exemplars share: a function of config and image shape alone

    def __init__(self, config: CodecConfig, image_shape: Shape) -> None:
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

    @cached_property
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
    def encode(self, candidate: Candidate, generator: torch.Generator) -> Exemplar:
        """Store an image of `image_shape`; only `generator` may decide what is left out."""

    @abstractmethod
    def decode(self, exemplar: Exemplar) -> tuple[np.ndarray, np.ndarray | None]:
        """The image, uint8 [H, W, C] with 0 where unknown, and the known patches, bool [GH, GW].

        Raises:
            InputError: No image can have given these bytes.
        """

    def decode_many(
        self, exemplars: Sequence[Exemplar]
    ) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """What `decode` gives for each; override it where many together are faster."""
        return [self.decode(exemplar) for exemplar in exemplars]

    def known_patches(self, exemplar: Exemplar) -> np.ndarray | None:
        """The known patches that `decode` gives; override it where they are known without decoding.

        Raises:
            InputError: No image can have given these bytes.
        """
        return self.decode(exemplar)[1]

    def check(self, exemplar: Exemplar) -> None:
        """Refuse what `encode` cannot have made.

        Raises:
            InputError: A length or a bitmap is impossible.
        """
        if self.payload_bytes is not None and exemplar.payload_size != self.payload_bytes:
            raise InputError(
                f"an exemplar must have {self.payload_bytes:,} bytes of payload; "
                f"got {exemplar.payload_size:,}."
            )
        if self.payload_bytes is None and exemplar.payload_size >> (8 * self.length_bytes):
            raise InputError(
                f"an exemplar must be shorter than {1 << (8 * self.length_bytes):,} bytes; "
                f"got {exemplar.payload_size:,}."
            )
        if len(exemplar.positions) != self.position_bytes:
            raise InputError(
                f"an exemplar must have {self.position_bytes:,} bytes of positions; "
                f"got {len(exemplar.positions):,}."
            )


# ----------------------------------------------------------------------------- the codecs, by name


def _name_of(codec: type[Codec]) -> str:
    return codec.Config.model_fields["name"].default


def _check(codec: Any) -> None:
    is_codec = isinstance(codec, type) and issubclass(codec, Codec)
    fields = codec.Config.model_fields if is_codec and hasattr(codec, "Config") else {}
    if "name" not in fields or not isinstance(fields["name"].default, str):
        raise InputError(
            "a codec must be a class derived from Codec, with a Config whose name has a default; "
            f"got {codec!r}."
        )


CODECS: Registry[type[Codec]] = Registry("codec", "remnant.codecs", name_of=_name_of, check=_check)


def build_codec(config: CodecConfig, image_shape: Shape) -> Codec:
    """The codec that `config` describes, for images of one shape.

    Raises:
        InputError: There is no such codec, or its settings do not suit images of this shape.
    """
    return CODECS.find(config.name, "memory.codec")(config, image_shape)


def partial_choices() -> str:
    """The codecs that store some of the patches, as an error recommends them."""
    names = [name for name, codec in CODECS.items() if codec.is_partial]
    return " or ".join(f"memory.codec={name}" for name in names)
