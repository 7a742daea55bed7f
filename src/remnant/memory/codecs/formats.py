"""The table of coders that a codec may send its pictures through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from remnant.images import Shape
from remnant.memory.codecs.jpeg import JpegCoder
from remnant.memory.codecs.picture_codec import Coder
from remnant.memory.codecs.transform.transform_codec import TransformCoder, fitting_side
from remnant.memory.codecs.webp import WebpCoder

FormatName = Literal["transform", "jpeg", "webp"]

FORMATS: dict[FormatName, Callable[[Shape], Coder]] = {
    "transform": TransformCoder,
    "jpeg": JpegCoder,
    "webp": WebpCoder,
}


def build_mosaic_coder(name: FormatName, shape: Shape, patch_size: int) -> Coder:
    """A coder for pictures made of patches from different places."""
    if name == "transform":
        return TransformCoder(shape, fitting_side(patch_size), is_mosaic=True)
    return FORMATS[name](shape)
