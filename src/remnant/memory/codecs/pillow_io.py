"""Pillow as the decoder of rebuilt files: bounded, silent, and with one kind of error."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from PIL import Image

from remnant.errors import InputError
from remnant.images import Shape

# Pillow's errors for bytes that are no image of the given format.
_BROKEN = (OSError, SyntaxError, ValueError, EOFError)


def as_picture(pixels: np.ndarray) -> Image.Image:
    """uint8 [H, W, C] as a picture of Pillow's; one channel is grey."""
    return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)


def as_pixels(picture: Image.Image, num_channels: int) -> np.ndarray:
    """The inverse of `as_picture`; formats without grey give back its colour, which is equal."""
    pixels = np.asarray(picture.convert("L" if num_channels == 1 else "RGB"))
    return pixels.reshape(picture.height, picture.width, num_channels)


def decode_file(file: bytes, kind: str, shape: Shape) -> np.ndarray:
    """The pixels of an image file of one format, uint8 [H, W, C], if they have the shape.

    Raises:
        InputError: The bytes do not decode, or say another size; nothing is decoded then.
    """
    try:
        with Image.open(BytesIO(file), formats=(kind,)) as picture:
            if (picture.height, picture.width) != shape[:2]:
                raise _broken(kind, shape)
            return as_pixels(picture, shape[2])
    except InputError:
        raise
    except _BROKEN:
        raise _broken(kind, shape) from None


def _broken(kind: str, shape: Shape) -> InputError:
    return InputError(
        f"an exemplar must be a {kind} picture of {shape[0]} x {shape[1]} pixels; these bytes do "
        "not decode to one."
    )
