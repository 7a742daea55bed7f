"""WebP without its container: per exemplar, the partitions of a VP8 frame, or a VP8L stream.

[vp8] RFC 6386, section 9.1: frame tag, start code and sizes of a key frame.
[vp8l] RFC 9649: the WebP container and its lossless format.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any, Literal

import numpy as np

from remnant.errors import InputError
from remnant.images import Shape
from remnant.memory.codecs.picture_codec import (
    Coder,
    PictureCodec,
    pack_number,
    unpack_number,
)
from remnant.memory.codecs.pillow_io import as_picture, decode_file
from remnant.memory.codecs.rates import RateConfig

_RIFF_BYTES = 20  # "RIFF", size, "WEBP", name of the chunk, its size
_MAX_SIDE = 16_383  # 14 bits
_LOSSY, _LOSSLESS = b"VP8 ", b"VP8L"
_START_CODE = b"\x9d\x01\x2a"  # [vp8]
_TAG_BYTES, _SIGNATURE, _SIGNED_BYTES = 3, 0x2F, 5
_SHOWN_KEY_FRAME, _TAG_FLAGS = 0b10000, 0b11111  # profile 0; the partition's size lies above
_MAX_ZEROS = 8  # at the end of a frame; its decoder ignores zeros that are too many
_BEST_EFFORT = 6  # 2 % smaller than 4
_LOSSLESS_EFFORT = 4  # 6 takes ten times as long and is larger on CIFAR-100


class WebpConfig(RateConfig):
    """Whole images as WebP without its container, lossy or lossless."""

    takes_auto = True

    name: Literal["webp"] = "webp"
    lossless: bool = False  # True: every pixel comes back, and quality has no effect

    @classmethod
    def takes_rate(cls, values: dict[str, Any]) -> bool:
        return not values.get("lossless")


class WebpCoder(Coder):
    """Codes a picture as the one frame of a WebP file, less what every frame begins with."""

    def __init__(self, shape: Shape, *, lossless: bool = False) -> None:
        super().__init__(shape)
        if max(shape) > _MAX_SIDE:
            raise InputError(
                f"WebP stores sides of 1 to {_MAX_SIDE:,}; got {max(shape):,}. Choose another "
                "memory.codec."
            )
        self.lossless = lossless

    def encode(self, picture: np.ndarray, quality: int) -> bytes:
        stream = BytesIO()
        if self.lossless:
            options = {"lossless": True, "quality": 100, "method": _LOSSLESS_EFFORT, "exact": True}
        else:
            options = {"quality": quality, "method": _BEST_EFFORT}
        as_picture(picture).save(stream, "WEBP", **options)
        file = stream.getvalue()
        frame = file[_RIFF_BYTES : _RIFF_BYTES + int.from_bytes(file[16:20], "little")]
        return self._strip_lossless(frame) if self.lossless else self._strip(frame)

    def decode(self, payload: bytes, quality: int) -> np.ndarray:
        frame = self._rebuild_lossless(payload) if self.lossless else self._rebuild(payload)
        kind = _LOSSLESS if self.lossless else _LOSSY
        padded = frame + b"\0" * (len(frame) % 2)
        chunk = b"WEBP" + kind + len(frame).to_bytes(4, "little") + padded
        return decode_file(b"RIFF" + len(chunk).to_bytes(4, "little") + chunk, "WEBP", self.shape)

    def _strip(self, frame: bytes) -> bytes:
        """A VP8 frame as the size of its first partition, in 7-bit groups, and its partitions."""
        tag = int.from_bytes(frame[:_TAG_BYTES], "little")
        start = _TAG_BYTES + len(_START_CODE) + 4  # [vp8]: tag, start code, width, height
        assert tag & _TAG_FLAGS == _SHOWN_KEY_FRAME, "libwebp writes key frames of profile 0"
        assert frame[_TAG_BYTES:start] == _START_CODE + self._sizes(), "and nothing scaled"
        return pack_number(tag >> 5) + _strip_zeros(frame[start:])

    def _rebuild(self, payload: bytes) -> bytes:
        partition_bytes, partitions = unpack_number(payload, max_bits=19)
        tag = _SHOWN_KEY_FRAME | partition_bytes << 5
        head = tag.to_bytes(_TAG_BYTES, "little") + _START_CODE + self._sizes()
        return head + partitions + bytes(_MAX_ZEROS)

    def _sizes(self) -> bytes:
        height, width, _ = self.shape
        return width.to_bytes(2, "little") + height.to_bytes(2, "little")

    def _strip_lossless(self, frame: bytes) -> bytes:
        assert frame[:_SIGNED_BYTES] == self._signature(), "libwebp signs what it was given"
        return frame[_SIGNED_BYTES:]

    def _rebuild_lossless(self, payload: bytes) -> bytes:
        return self._signature() + payload

    def _signature(self) -> bytes:
        """[vp8l]: 0x2F, both sides less one in 14 bits each, no alpha, version 0."""
        height, width, _ = self.shape
        sizes = (width - 1) | (height - 1) << 14
        return bytes([_SIGNATURE]) + sizes.to_bytes(4, "little")


class WebpCodec(PictureCodec[WebpConfig]):
    """Stores the frame of a WebP file."""

    Config = WebpConfig
    shared_coder = WebpCoder
    trial_settings = (
        *({"quality": quality} for quality in (30, 60, 75, 90)),
        {"lossless": True},
    )

    def build_coder(self) -> Coder:
        return WebpCoder(self.image_shape, lossless=self.config.lossless)


def _strip_zeros(frame: bytes) -> bytes:
    end = max(len(frame.rstrip(b"\0")), len(frame) - _MAX_ZEROS)
    return frame[:end]
