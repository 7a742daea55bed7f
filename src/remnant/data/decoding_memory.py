"""The memory that pictures take while they are decoded, limited over all threads together.

A small file can hold a picture of many pixels, so that the size of files limits nothing.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from PIL import Image

# Chosen: a photo of 12 million pixels takes 48 MB, so that five are decoded at a time.
DECODING_BYTES = 256 << 20
_LITTLE = 1 << 20  # bytes: not worth a wait behind large pictures
_MUCH = 4 << 20  # bytes; given back to the system after use, since others will not need as much
# Pillow holds three channels in four bytes, and two as well; 16 bits become 8 on their way to RGB.
_NARROW_MODES = {"1": 1, "L": 1, "P": 1, "I;16": 3, "I;16B": 3, "I;16L": 3, "I;16N": 3}
_WIDE = 4  # bytes of a pixel in all other modes
_WEBP = 12  # bytes per pixel of the decoder's own canvases and of its answer
_WEBP_HEAD = 30  # bytes, in which the size of the canvases is told


def webp_bytes(file: BinaryIO) -> int:
    """About how many bytes it takes to decode a WebP file; 0 if it has another format.

    Pillow's decoder allocates its canvases when a file is opened: this must be known before.
    """
    head = file.read(_WEBP_HEAD)
    file.seek(-len(head), os.SEEK_CUR)
    if len(head) < _WEBP_HEAD or head[:4] != b"RIFF" or head[8:12] != b"WEBP":
        return 0
    kind = head[12:16]
    if kind == b"VP8X":
        width, height = (1 + int.from_bytes(head[at : at + 3], "little") for at in (24, 27))
        has_alpha = bool(head[20] & 0x10)
    elif kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        width, height, has_alpha = (
            1 + (bits & 0x3FFF),
            1 + (bits >> 14 & 0x3FFF),
            bool(bits >> 28 & 1),
        )
    elif kind == b"VP8 ":
        width, height = (int.from_bytes(head[at : at + 2], "little") & 0x3FFF for at in (26, 28))
        has_alpha = False
    else:
        return 0  # which Pillow refuses
    return width * height * (_WEBP + _WIDE + (_WIDE if has_alpha else 0))


def decoding_bytes(picture: Image.Image, full_pixels: int) -> int:
    """About how many bytes it takes to load a picture and turn it into RGB; not for WebP.

    Args:
        picture: Opened, not loaded; a JPEG already drafted to the size that is needed.
        full_pixels: Of the picture before it was drafted.
    """
    pixels = picture.width * picture.height
    is_rgb = picture.mode == "RGB" and "transparency" not in picture.info
    found = pixels * (_NARROW_MODES.get(picture.mode, _WIDE) + (0 if is_rgb else _WIDE))
    if "progressive" in picture.info:  # all coefficients are held until the last scan is read
        found += full_pixels * 2 * len(picture.getbands())
    return found


class MemoryGate:
    """Lets threads in, first come first served, while what they hold together is below a limit.

    Small pictures are let in at once and do not count, so that no flood of large ones delays them;
    how many there can be is limited by the number of threads.

    Args:
        limit: Bytes.
        little: Bytes that are small.
        shared: Bytes that several may hold together; what is larger is had alone.
    """

    def __init__(self, limit: int, little: int = _LITTLE, shared: int | None = None) -> None:
        self.limit = limit
        self._shared = limit if shared is None else shared
        self._little = little
        self._held = 0
        self._turn = threading.Lock()
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, num_bytes: int) -> Iterator[None]:
        """Wait for so much memory."""
        if num_bytes <= self._little:
            yield
            return
        with self._turn, self._changed:
            self._changed.wait_for(
                lambda: self._held == 0 or self._held + num_bytes <= self._shared
            )
            self._held += num_bytes
        try:
            yield
        finally:
            with self._changed:
                self._held -= num_bytes
                self._changed.notify_all()


GATE = MemoryGate(DECODING_BYTES)


@contextmanager
def memory_for(picture: Image.Image, num_bytes: int, gate: MemoryGate) -> Iterator[None]:
    """Wait until there is memory to decode a picture; inside, load it and let go of it."""
    with gate.hold(num_bytes):
        try:
            yield
        finally:
            if (error := sys.exception()) is not None:
                traceback.clear_frames(error.__traceback__)  # which hold pixels
            if num_bytes > _MUCH:
                picture.close()  # its pixels too
                vars(picture).pop("_decoder", None)  # of WebP: two canvases, which close() leaves
                _give_back()


def _give_back() -> None:
    """Return freed memory to the system, where glibc keeps it."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)
