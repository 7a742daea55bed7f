"""JPEG XL, through the imagecodecs package: the smallest lossless form of small images.

[jxl] ISO/IEC 18181-1, annex D: signature and size header of a codestream.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

import numpy as np

from remnant.errors import InputError
from remnant.memory.codecs.picture_codec import Coder, PictureCodec, Shape
from remnant.memory.codecs.rates import RateConfig

_SIGNATURE = b"\xff\x0a"  # of a bare codestream
_SIZE_BITS = (9, 13, 18, 30)  # [jxl] of a side less one, by a selector of 2 bits
_RATIOS = ((1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))  # [jxl] width : height
_EFFORT = 7  # libjxl's own default; 9 is ten times slower for 2 %


class JpegXlConfig(RateConfig):
    """Whole images as JPEG XL without its signature, lossy or lossless; needs imagecodecs."""

    name: Literal["jpeg-xl"] = "jpeg-xl"
    lossless: bool = False

    @classmethod
    def takes_rate(cls, values: dict[str, Any]) -> bool:
        return not values.get("lossless")


class JpegXlCodec(PictureCodec[JpegXlConfig]):
    """Stores a JPEG XL codestream."""

    def build_coder(self) -> Coder:
        return JpegXlCoder(self.image_shape, lossless=self.config.lossless)


class JpegXlCoder(Coder):
    """Codes a picture as a bare codestream without its signature."""

    def __init__(self, shape: Shape, *, lossless: bool = False) -> None:
        super().__init__(shape)
        self.lossless = lossless
        try:
            self._library = import_module("imagecodecs")
        except ImportError:
            raise InputError(
                "memory.codec=jpeg-xl needs the imagecodecs package, which is not installed. Run "
                '`pip install "remnant[codecs]"` or choose another memory.codec.'
            ) from None

    def encode(self, picture: np.ndarray, quality: int) -> bytes:
        pixels = picture[..., 0] if self.shape[2] == 1 else picture
        options = {"lossless": True} if self.lossless else {"distance": distance_of(quality)}
        stream: bytes = self._library.jpegxl_encode(
            pixels, effort=_EFFORT, usecontainer=False, numthreads=1, **options
        )
        assert stream.startswith(_SIGNATURE), "libjxl was asked for a bare codestream"
        return stream[len(_SIGNATURE) :]

    def decode(self, payload: bytes, quality: int) -> np.ndarray:
        if read_size(payload) != self.shape[:2]:
            raise self._broken()
        try:
            pixels = self._library.jpegxl_decode(_SIGNATURE + payload, numthreads=1)
        except (RuntimeError, ValueError):  # JpegxlError is the first of them, and not the only one
            raise self._broken() from None
        if pixels.dtype != np.uint8 or pixels.size != np.prod(self.shape):
            raise self._broken()
        return pixels.reshape(self.shape)

    def _broken(self) -> InputError:
        height, width, _ = self.shape
        return InputError(
            f"an exemplar must be a JPEG XL picture of {height} x {width} pixels; these bytes do "
            "not decode to one."
        )


def distance_of(quality: int) -> float:
    """libjxl's distance for a quality as of JPEG, by the rule of its own command line."""
    if quality >= 30:
        return 0.1 + (100 - quality) * 0.09
    return 53 / 3000 * quality**2 - 23 / 20 * quality + 25


def read_size(payload: bytes) -> tuple[int, int]:
    """[jxl] Height and width of a codestream without its signature, before anything is decoded."""
    bits = _Bits(payload)
    is_small = bits.take(1)  # multiples of 8 up to 256
    height = _read_side(bits, is_small)
    ratio = bits.take(3)
    if not ratio:
        return height, _read_side(bits, is_small)
    across, down = _RATIOS[ratio - 1]
    return height, height * across // down


def _read_side(bits: _Bits, is_small: int) -> int:
    return 8 * (1 + bits.take(5)) if is_small else 1 + bits.take(_SIZE_BITS[bits.take(2)])


class _Bits:
    """The bits of a codestream, low bit of each byte first; zeros follow its end."""

    def __init__(self, payload: bytes) -> None:
        self._rest = int.from_bytes(payload[:16], "little")

    def take(self, count: int) -> int:
        taken = self._rest & ((1 << count) - 1)
        self._rest >>= count
        return taken
