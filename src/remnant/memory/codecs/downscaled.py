"""Whole images at a fraction of their size, up-scaled again when they are read."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from pydantic import Field, field_validator

from remnant.errors import InputError
from remnant.images import Shape
from remnant.memory.codecs.codec import Candidate, Exemplar
from remnant.memory.codecs.picture_codec import Coder, PictureCodec, find_coder
from remnant.memory.codecs.pillow_io import as_picture, as_pixels
from remnant.memory.codecs.rates import RateConfig


class DownscaledConfig(RateConfig):
    """Whole images, smaller by a factor, as they are or through an image codec."""

    name: Literal["downscaled"] = "downscaled"
    factor: int = Field(default=2, ge=2)  # of both sides
    through: str = "raw"  # or a codec that shares its coder

    @field_validator("through")
    @classmethod
    def _check_through(cls, name: str) -> str:
        find_coder(name, raw=RawCoder)
        return name

    @classmethod
    def takes_rate(cls, values: dict[str, Any]) -> bool:
        return values.get("through", "raw") != "raw"


class DownscaledCodec(PictureCodec[DownscaledConfig]):
    """Stores the means of squares of pixels; a target of PSNR is about them, not about the image.

    Chosen: means down and bicubic up, the pair that loses least of those that Pillow has.
    """

    Config = DownscaledConfig
    trial_settings = ({"factor": 2}, {"factor": 2, "through": "webp", "quality": 75})

    def __init__(self, config: DownscaledConfig, image_shape: Shape) -> None:
        super().__init__(config, image_shape)
        if config.through == "raw":
            self.payload_bytes = int(np.prod(self.small_shape))

    @property
    def small_shape(self) -> Shape:
        height, width, channels = self.image_shape
        factor = self.config.factor
        return -(-height // factor), -(-width // factor), channels

    def build_coder(self) -> Coder:
        return find_coder(self.config.through, raw=RawCoder)(self.small_shape)

    def encode(self, candidate: Candidate, generator: torch.Generator) -> Exemplar:
        small = _resize(candidate.image, self.small_shape, Image.Resampling.BOX)
        return Exemplar(self.coder.encode(small))

    def restore(self, picture: np.ndarray) -> np.ndarray:
        return _resize(picture, self.image_shape, Image.Resampling.BICUBIC)


class RawCoder(Coder):
    """Codes a picture as its pixels."""

    def encode(self, picture: np.ndarray, quality: int) -> bytes:
        return picture.tobytes()

    def decode(self, payload: bytes, quality: int) -> np.ndarray:
        size = int(np.prod(self.shape))
        if len(payload) != size:
            raise InputError(f"an exemplar must have {size:,} bytes; got {len(payload):,}.")
        return np.frombuffer(payload, dtype=np.uint8).reshape(self.shape)


def _resize(pixels: np.ndarray, shape: Shape, how: Image.Resampling) -> np.ndarray:
    """uint8 [h, w, C] at another size; Pillow rounds in integers, so everywhere alike."""
    return as_pixels(as_picture(pixels).resize((shape[1], shape[0]), how), shape[2])
