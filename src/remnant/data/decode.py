"""One image file -> uint8 RGB pixels of a given size.

Files are not trusted: only listed formats are tried, pictures too large to be photographs are
refused before they are decoded, and every failure names the file.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image

from remnant.data.decoding_memory import GATE, MemoryGate, decoding_bytes, memory_for, webp_bytes
from remnant.errors import InputError
from remnant.images import crop_box

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF")
ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif")
MAX_PIXELS = 80_000_000  # below the count at which Pillow itself begins to warn
MAX_SIDE = 65_535  # what a JPEG can have; every row costs memory, however short it is

_STRIP = 256  # rows that are converted at a time
_LARGE = 64  # px; beyond it images are framed with a margin, as ImageNet's are
_ORIENTATION = 0x0112  # the EXIF tag
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# What Pillow raises for bytes that are no image of the format they claim.
_BROKEN = (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error, zlib.error)

Box = tuple[float, float, float, float]  # left, top, right, bottom


class UnreadableImageError(InputError):
    """A file is missing, no whole image, or too large."""


class FailingDiskError(InputError):
    """The system cannot read a file now; the image in it may be sound."""


def decode_file(path: Path, size: int, draw: Sequence[float] | None = None) -> np.ndarray:
    """The image in `path` as uint8 [size, size, 3].

    With `draw`, four numbers in [0, 1), a random resized crop; without, the framing for tests.

    Raises:
        InputError: The file cannot be read, is no whole image, has too many pixels, or takes too
            much memory to decode.
    """
    _check_is_file(path)
    with _explaining(str(path)), path.open("rb") as file:
        return _decode(file, size, draw, str(path), GATE)


def picture_size(path: Path) -> tuple[int, int]:
    """Width and height of the image in `path`, as they lie in the file.

    Raises:
        InputError: As for `decode_file`, as far as it shows without decoding.
    """
    _check_is_file(path)
    with (
        _explaining(str(path)),
        path.open("rb") as file,
        _opened(file, str(path), GATE) as (picture, _),
    ):
        return picture.size


def decode_stream(file: BinaryIO, size: int, name: str, *, gate: MemoryGate = GATE) -> np.ndarray:
    """What `decode_file` makes of a file with this content; errors call it `name`.

    Args:
        gate: Memory that it shares with others; a picture that takes more than all is refused.
    """
    with _explaining(name):
        return _decode(file, size, None, name, gate)


def _decode(
    file: BinaryIO, size: int, draw: Sequence[float] | None, name: str, gate: MemoryGate
) -> np.ndarray:
    with _opened(file, name, gate) as (picture, rest):
        return _frame(picture, size, draw, name, rest)


@contextmanager
def _opened(
    file: BinaryIO, name: str, gate: MemoryGate
) -> Iterator[tuple[Image.Image, MemoryGate]]:
    """A picture of a size that is allowed, and the gate that it has yet to pass.

    A WebP has passed with all that it needs: its decoder takes memory as soon as it is opened.
    """
    needed = webp_bytes(file)
    _check_memory(needed, "WEBP", name, gate)
    with gate.hold(needed), Image.open(file, formats=FORMATS) as picture:
        _check_pixels(picture, name)
        yield picture, MemoryGate(needed) if needed else gate


def frame_picture(picture: Image.Image, size: int, name: str) -> np.ndarray:
    """A picture that the caller opened, framed for tests: uint8 [size, size, 3].

    Raises:
        InputError: It does not decode or has too many pixels; the message begins with `name`.
    """
    with _explaining(name):
        _check_pixels(picture, name)
        return _frame(picture.copy(), size, None)  # a draft would change the caller's picture


@contextmanager
def _explaining(name: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise UnreadableImageError(
            f"{name} cannot be read ({error.strerror}). Check the file."
        ) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _too_large(name) from None
    except _BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:  # Pillow's own have none
            raise FailingDiskError(
                f"{name} cannot be read ({error.strerror}). Its image may be sound: try again."
            ) from None
        raise UnreadableImageError(
            f"{name} must be a whole JPEG, PNG, WebP, BMP or GIF image; it does not decode. "
            "Replace or remove the file."
        ) from None


def _check_is_file(path: Path) -> None:
    if path.exists() and not path.is_file():  # a pipe would wait for somebody to write
        raise UnreadableImageError(f"{path} must be a file; it is not. Remove it.")


def _check_pixels(picture: Image.Image, name: str) -> None:
    if picture.width * picture.height > MAX_PIXELS:
        raise _too_large(name)
    if max(picture.size) > MAX_SIDE:
        raise UnreadableImageError(
            f"{name} must have sides of at most {MAX_SIDE:,} pixels; it is {picture.width:,} x "
            f"{picture.height:,}. Make it smaller, or remove it."
        )


def _check_memory(needed: int, file_format: str | None, name: str, gate: MemoryGate) -> None:
    if needed > gate.limit:
        raise UnreadableImageError(
            f"{name} must take at most {gate.limit >> 20} MiB of memory while it is decoded; this "
            f"{file_format} file takes {needed >> 20} MiB. Make it smaller, or remove it."
        )


def _too_large(name: str) -> UnreadableImageError:
    return UnreadableImageError(
        f"{name} must have at most {MAX_PIXELS:,} pixels; it has more. Make it smaller, or remove "
        "it."
    )


@dataclass(frozen=True)
class _Frame:
    """Which part of a picture is wanted, and how the picture lies in its file."""

    box: Box  # in the upright picture, at its full size
    upright: tuple[int, int]  # width and height
    orientation: int


def _frame(
    picture: Image.Image,
    size: int,
    draw: Sequence[float] | None,
    name: str = "",
    gate: MemoryGate | None = None,
) -> np.ndarray:
    full_pixels = picture.width * picture.height
    # A JPEG tells how it lies before it is loaded; a PNG may tell it behind its pixels.
    frame = _plan_frame(picture, size, draw) if picture.format == "JPEG" else None
    needed = decoding_bytes(picture, full_pixels)
    if gate is not None:
        _check_memory(needed, picture.format, name, gate)
    with memory_for(picture, needed, gate or GATE):
        return _cut_out(picture, frame or _plan_frame(picture, size, draw), size, draw)


def _plan_frame(picture: Image.Image, size: int, draw: Sequence[float] | None) -> _Frame:
    orientation = _orientation(picture)
    is_turned = orientation >= 5  # lies on its side in the file
    width, height = picture.size[::-1] if is_turned else picture.size
    box = _test_box(width, height, size) if draw is None else crop_box(width, height, draw)
    _draft(picture, box, (width, height), size, is_turned=is_turned)
    return _Frame(box, (width, height), orientation)


def _cut_out(
    picture: Image.Image, frame: _Frame, size: int, draw: Sequence[float] | None
) -> np.ndarray:
    upright = to_rgb(picture)
    if frame.orientation in _UPRIGHT:
        upright = upright.transpose(_UPRIGHT[frame.orientation])
    width, height = frame.upright
    box = _scaled(frame.box, upright.width / width, upright.height / height, upright.size)
    if draw is not None:
        upright, box = _cut(upright, box)
    return np.asarray(upright.resize((size, size), Image.Resampling.BILINEAR, box))


def _test_box(width: int, height: int, size: int) -> Box:
    """What remains visible when the shorter side is resized and the centre cropped to `size`."""
    scale = resized_side(size) / min(width, height)
    new_width, new_height = max(size, round(width * scale)), max(size, round(height * scale))
    left, top = (new_width - size) // 2, (new_height - size) // 2
    across, down = width / new_width, height / new_height
    return left * across, top * down, (left + size) * across, (top + size) * down


def resized_side(size: int) -> int:
    """The length to which the shorter side is brought before the centre is cropped to `size`."""
    # Chosen: small images are shown whole; the margin of 256 to 224 would blur a 64 px image.
    return round(size * 256 / 224) if size > _LARGE else size


def _draft(
    picture: Image.Image, box: Box, upright: tuple[int, int], size: int, *, is_turned: bool
) -> None:
    """Let a JPEG decode at a half, quarter or eighth where twice the pixels needed remain.

    Twice, as Pillow's own thumbnails do, so that the result stays close to a full decode.
    """
    width = math.ceil(upright[0] * 2 * size / (box[2] - box[0]))
    height = math.ceil(upright[1] * 2 * size / (box[3] - box[1]))
    picture.draft(None, (height, width) if is_turned else (width, height))


def _scaled(box: Box, across: float, down: float, limits: tuple[int, int]) -> Box:
    """`box` in a drafted picture; rounding must not carry it over the edge."""
    right, bottom = min(box[2] * across, limits[0]), min(box[3] * down, limits[1])
    return box[0] * across, box[1] * down, right, bottom


def _cut(picture: Image.Image, box: Box) -> tuple[Image.Image, Box]:
    """The pixels that `box` touches and the box within them, so that none outside blend in."""
    left, top = math.floor(box[0]), math.floor(box[1])
    part = picture.crop((left, top, math.ceil(box[2]), math.ceil(box[3])))
    return part, (box[0] - left, box[1] - top, box[2] - left, box[3] - top)


def _orientation(picture: Image.Image) -> int:
    """EXIF's orientation, 1 where it is absent; unreadable EXIF does not spoil the pixels."""
    try:
        value = picture.getexif().get(_ORIENTATION, 1)
    except _BROKEN:
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def to_rgb(picture: Image.Image) -> Image.Image:
    """8-bit RGB: transparent pixels over white (`Chosen:` as on a page), 16-bit levels scaled."""
    if picture.mode == "RGB" and "transparency" not in picture.info:
        picture.load()
        return picture
    has_layers = picture.mode in ("RGBA", "LA", "PA", "La", "RGBa")
    if not (picture.mode.startswith("I") or has_layers or "transparency" in picture.info):
        return picture.convert("RGB")
    page = Image.new("RGB", picture.size)
    for top in range(0, picture.height, _STRIP):  # what lies between is several times as large
        strip = picture.crop((0, top, picture.width, min(picture.height, top + _STRIP)))
        page.paste(
            _from_levels(strip) if picture.mode.startswith("I") else _over_white(strip), (0, top)
        )
    return page


def _from_levels(picture: Image.Image) -> Image.Image:
    levels = np.asarray(picture).astype(np.float64)
    return Image.fromarray(np.rint(np.clip(levels, 0, 65535) / 257).astype(np.uint8)).convert("RGB")


def _over_white(picture: Image.Image) -> Image.Image:
    layer = picture.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
