"""Image files that nobody can read: one claims too many pixels, one is cut in half."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
from PIL import Image


def bomb() -> bytes:
    """A PNG of a few bytes that claims 400 million pixels."""

    def chunk(name: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + check

    header = struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0)
    ends = chunk(b"IDAT", zlib.compress(b"0")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + ends


def truncated() -> bytes:
    """The first half of a JPEG of noise."""
    file = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(file, "JPEG")
    return file.getvalue()[: file.tell() // 2]
