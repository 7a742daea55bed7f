"""The codecs. To add one: a file beside this one and a name in the list below.

Codecs of other packages are found by their entry points; see `Codec`.
"""

from __future__ import annotations

from remnant.memory.codecs.boxed import BoxedCodec
from remnant.memory.codecs.codec import (
    CODECS,
    Candidate,
    Codec,
    CodecConfig,
    Exemplar,
    build_codec,
    partial_choices,
)
from remnant.memory.codecs.coded_patches import CodedPatchCodec
from remnant.memory.codecs.downscaled import DownscaledCodec
from remnant.memory.codecs.jpeg import JpegCodec
from remnant.memory.codecs.patches import PartialCodec, PatchCodec, PatchesConfig
from remnant.memory.codecs.raw import RawCodec, RawConfig
from remnant.memory.codecs.transform import TransformCodec, TransformConfig
from remnant.memory.codecs.webp import WebpCodec

for _codec in (
    RawCodec,
    PatchCodec,
    TransformCodec,
    JpegCodec,
    WebpCodec,
    DownscaledCodec,
    CodedPatchCodec,
    BoxedCodec,
):
    CODECS.register(_codec)

__all__ = [
    "CODECS",
    "Candidate",
    "Codec",
    "CodecConfig",
    "Exemplar",
    "PartialCodec",
    "PatchCodec",
    "PatchesConfig",
    "RawCodec",
    "RawConfig",
    "TransformConfig",
    "build_codec",
    "partial_choices",
]
