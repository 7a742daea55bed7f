"""JPEG without its tables and headers: per exemplar, the entropy-coded scan alone."""

from __future__ import annotations

from io import BytesIO
from typing import Any, Literal

import numpy as np

from remnant.errors import InputError
from remnant.images import Shape
from remnant.memory.codecs.picture_codec import Coder, PictureCodec
from remnant.memory.codecs.pillow_io import as_picture, decode_file
from remnant.memory.codecs.rates import RateConfig

_SOI, _EOI = b"\xff\xd8", b"\xff\xd9"
_SHARED = (0xDB, 0xC0, 0xC4, 0xDA)  # DQT, SOF0, DHT, SOS: what a decoder needs, all else is dropped
_START_OF_FRAME, _START_OF_SCAN = 0xC0, 0xDA
_FLAT_STEP = 48  # of quality 50; at 75, 24 gives 31 dB on CIFAR-100
_MAX_SIDE = 65_500  # of libjpeg

Subsampling = Literal["4:4:4", "4:2:2", "4:2:0"]
Weighting = Literal["flat", "standard"]


class JpegConfig(RateConfig):
    """Whole images as JPEG; tables and headers are stored once."""

    takes_auto = True

    name: Literal["jpeg"] = "jpeg"
    # Chosen: at 32 px, 4:2:0 and 4:4:4 give the same PSNR for the same bytes near 29.5 dB, and
    # above that 4:4:4 is better.
    subsampling: Subsampling = "4:4:4"
    # Chosen: the standard tables spend bytes where people look; one step for all coefficients
    # reaches the same PSNR with a sixth fewer bytes.
    weighting: Weighting = "flat"


class JpegCoder(Coder):
    """Codes a picture as the scan of a JPEG file with the standard Huffman tables.

    Byte stuffing is undone too: every FF of the scan is followed by 00 in a file, and alone here.
    Putting it back also means that no payload can hold a marker.
    """

    has_quality_inside = False

    def __init__(
        self, shape: Shape, subsampling: Subsampling = "4:4:4", weighting: Weighting = "flat"
    ) -> None:
        super().__init__(shape)
        if max(shape) > _MAX_SIDE:
            raise InputError(f"JPEG stores sides of 1 to {_MAX_SIDE:,}; got {max(shape):,}.")
        self._subsampling: Subsampling = subsampling
        self._weighting: Weighting = weighting
        self._headers: dict[int, bytes] = {}  # by quality

    def tables(self, quality: int) -> bytes:
        if quality not in self._headers:
            # Of a small picture, whatever the size: the shape may come from a stranger's file.
            blank = self._file(np.zeros((8, 8, self.shape[2]), dtype=np.uint8), quality)
            self._headers[quality] = _of_size(_split(blank)[0], self.shape)
        return self._headers[quality]

    def encode(self, picture: np.ndarray, quality: int) -> bytes:
        return _split(self._file(picture, quality))[1].replace(b"\xff\x00", b"\xff")

    def decode(self, payload: bytes, quality: int) -> np.ndarray:
        scan = payload.replace(b"\xff", b"\xff\x00")
        return decode_file(self.tables(quality) + scan + _EOI, "JPEG", self.shape)

    def _file(self, picture: np.ndarray, quality: int) -> bytes:
        stream = BytesIO()
        as_picture(picture).save(stream, "JPEG", **self._options(quality))
        return stream.getvalue()

    def _options(self, quality: int) -> dict[str, Any]:
        options: dict[str, Any] = {"optimize": False, "progressive": False}
        if self.shape[2] == 3:
            options["subsampling"] = self._subsampling
        if self._weighting == "standard":
            return options | {"quality": quality}
        return options | {"qtables": [[flat_step(quality)] * 64] * (1 if self.shape[2] == 1 else 2)}


class JpegCodec(PictureCodec[JpegConfig]):
    """Stores the scan of a baseline JPEG file."""

    Config = JpegConfig
    shared_coder = JpegCoder
    trial_settings = tuple({"quality": quality} for quality in (50, 75, 90))

    def build_coder(self) -> Coder:
        return JpegCoder(self.image_shape, self.config.subsampling, self.config.weighting)


def flat_step(quality: int) -> int:
    """The quantiser step of a quality, by the rule with which libjpeg scales its tables."""
    percent = 5000 // quality if quality < 50 else 200 - 2 * quality
    return min(255, max(1, (_FLAT_STEP * percent + 50) // 100))


def _of_size(header: bytes, shape: Shape) -> bytes:
    """The headers of a JPEG file with another height and width."""
    place = len(_SOI)
    while header[place + 1] != _START_OF_FRAME:
        place += 2 + int.from_bytes(header[place + 2 : place + 4])
    sides = b"".join(side.to_bytes(2) for side in shape[:2])
    return header[: place + 5] + sides + header[place + 5 + len(sides) :]


def _split(file: bytes) -> tuple[bytes, bytes]:
    """The headers of a JPEG file that a decoder needs, and its scan."""
    header, place = _SOI, len(_SOI)
    while True:
        kind = file[place + 1]
        end = place + 2 + int.from_bytes(file[place + 2 : place + 4])
        if kind in _SHARED:
            header += file[place:end]
        place = end
        if kind == _START_OF_SCAN:
            return header, file[place : -len(_EOI)]
