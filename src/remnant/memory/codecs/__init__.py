"""The table of codecs, and the plainest of them.

To add a codec: one file with its config and class, and one line in `CODECS`
(type checkers, which cannot read the table, want it in `CodecConfig` too).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union

import numpy as np
import torch
from pydantic import BeforeValidator, Field

from remnant.images import Shape
from remnant.memory.codecs.codec import Codec, Exemplar
from remnant.memory.codecs.coded_patches import CodedPatchCodec, CodedPatchesConfig
from remnant.memory.codecs.downscaled import DownscaledCodec, DownscaledConfig
from remnant.memory.codecs.jpeg import JpegCodec, JpegConfig
from remnant.memory.codecs.patches import PatchCodec, PatchesConfig
from remnant.memory.codecs.transform.transform_codec import TransformCodec, TransformConfig
from remnant.memory.codecs.webp import WebpCodec, WebpConfig
from remnant.settings import Settings


class RawConfig(Settings):
    """Whole images, as they are."""

    name: Literal["raw"] = "raw"


class RawCodec(Codec):
    """Stores every byte of an image."""

    def __init__(self, config: RawConfig, image_shape: Shape) -> None:
        super().__init__(config, image_shape)
        self.payload_bytes = self.image_bytes

    def encode(self, image: np.ndarray, generator: torch.Generator) -> Exemplar:
        return Exemplar(image.tobytes())

    def decode(self, exemplar: Exemplar) -> tuple[np.ndarray, np.ndarray | None]:
        return np.frombuffer(exemplar.payload, dtype=np.uint8).reshape(self.image_shape), None


class CodecEntry(NamedTuple):
    """A codec's config class and what builds it from a config and an image shape."""

    config: type[Settings]
    build: Callable[[Any, Shape], Codec]


CODECS: dict[str, CodecEntry] = {
    "raw": CodecEntry(RawConfig, RawCodec),
    "patches": CodecEntry(PatchesConfig, PatchCodec),
    "transform": CodecEntry(TransformConfig, TransformCodec),
    "jpeg": CodecEntry(JpegConfig, JpegCodec),
    "webp": CodecEntry(WebpConfig, WebpCodec),
    "downscaled": CodecEntry(DownscaledConfig, DownscaledCodec),
    "coded-patches": CodecEntry(CodedPatchesConfig, CodedPatchCodec),
}


def _expand_name(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


if TYPE_CHECKING:
    CodecConfig = (
        RawConfig
        | PatchesConfig
        | TransformConfig
        | JpegConfig
        | WebpConfig
        | DownscaledConfig
        | CodedPatchesConfig
    )
else:  # every config of the table, told apart by its name; the bare name stands for its defaults
    CodecConfig = Annotated[
        Union[tuple(entry.config for entry in CODECS.values())],  # noqa: UP007
        Field(discriminator="name"),
        BeforeValidator(_expand_name),
    ]


def build_codec(config: CodecConfig, image_shape: Shape) -> Codec:
    """The codec that `config` describes, for images of one shape.

    Raises:
        InputError: The settings do not suit images of this shape.
    """
    return CODECS[config.name].build(config, image_shape)
