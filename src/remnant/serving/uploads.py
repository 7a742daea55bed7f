"""Uploaded images and names: checked for count and size, then decoded once."""

from __future__ import annotations

import os
import unicodedata
from dataclasses import dataclass

from fastapi import UploadFile

from remnant.data.decode import MAX_PIXELS, decode_stream
from remnant.data.decoding_memory import MemoryGate
from remnant.errors import InputError
from remnant.learner.inputs import FramedImage
from remnant.learner.usable_images import tell_unreadable
from remnant.serving.schemas import UploadLimits

# Chosen: photos taken with a phone have 2 to 12 MB, and a class is taught with tens of them.
LIMITS = UploadLimits(
    image_bytes=25 << 20,
    images=500,  # below the 1,000 parts of a form that are read
    request_bytes=256 << 20,
    pixels=MAX_PIXELS,
    decoding_bytes=168 << 20,  # 11 million pixels as WebP, the most wasteful format
    name_characters=100,
)
# Chosen: a picture of more than this is decoded alone, so that small ones need not wait for cores.
_PICTURES = MemoryGate(LIMITS.decoding_bytes, shared=48 << 20)
_FILES = MemoryGate(2 * LIMITS.image_bytes)  # of some formats the whole file is held, too
_MAX_SHOWN = 60  # characters of a file name in an error message


class TooLargeError(InputError):
    """An upload exceeds a limit."""


@dataclass(frozen=True)
class Received:
    """The images of a request that can be used."""

    images: list[FramedImage]
    names: list[str]  # the class of each
    places: list[int]  # of each in the request
    notes: list[str]  # a sentence about the others, if there are any


def receive(upload: UploadFile, size: int) -> FramedImage:
    """An uploaded file as an image of the store's size.

    Raises:
        TooLargeError: It has too many bytes.
        InputError: It is not a whole image, or takes too much memory to decode.
    """
    name = _shown(upload.filename)
    num_bytes = upload.file.seek(0, os.SEEK_END)
    if num_bytes > LIMITS.image_bytes:
        raise TooLargeError(
            f"{name} must have at most {LIMITS.image_bytes >> 20} MiB; it has more. Send a smaller "
            "file."
        )
    upload.file.seek(0)
    with _FILES.hold(num_bytes):
        pixels = decode_stream(upload.file, size, name, gate=_PICTURES)
    upload.file.close()  # its copy on disk is not needed any more
    return FramedImage(name, pixels)


def receive_all(uploads: list[UploadFile], names: list[str], size: int) -> Received:
    """The images of a request, decoded; those that cannot be are left out and named.

    Raises:
        TooLargeError: There are too many, or one has too many bytes.
        InputError: There are more or fewer names than images, one cannot be used, or no image of a
            class can be.
    """
    names = name_each(names, len(uploads))
    if len(uploads) > LIMITS.images:
        raise TooLargeError(
            f"a request must have at most {LIMITS.images} images; got {len(uploads):,}. Send "
            "several requests."
        )
    images: dict[int, FramedImage] = {}
    errors: dict[int, InputError] = {}
    for place, upload in enumerate(uploads):
        try:
            images[place] = receive(upload, size)
        except TooLargeError:
            raise
        except InputError as error:
            errors[place] = error
    kept = [names[place] for place in images]
    for place, error in errors.items():
        if names[place] not in kept:
            raise error
    left_out = [_shown(uploads[place].filename) for place in errors]
    notes = [tell_unreadable(left_out)] if left_out else []
    return Received(list(images.values()), kept, list(images), notes)


def name_each(names: list[str], num_images: int) -> list[str]:
    """The class of each image; one name stands for all images.

    Raises:
        InputError: There are more or fewer names than images, or one cannot be used.
    """
    checked = [check_name(name) for name in names]
    if len(checked) == 1:
        return checked * num_images
    if len(checked) != num_images:
        raise InputError(
            "name must be given once, or once for each image in the same order; got "
            f"{len(names):,} names and {num_images:,} images."
        )
    return checked


def check_name(name: str) -> str:
    """The name of a class without surrounding spaces.

    Raises:
        InputError: It is empty, too long, not printable, or cannot be part of a URL.
    """
    stripped = name.strip()
    if not stripped:
        raise InputError("a class must have a name; got an empty one.")
    if len(stripped) > LIMITS.name_characters:
        raise InputError(
            f"a class name must have at most {LIMITS.name_characters} characters; got "
            f"{len(stripped):,}."
        )
    # Unicode categories C*: control characters, surrogates and so on.
    if any(unicodedata.category(one)[0] == "C" for one in stripped) or stripped in (".", ".."):
        raise InputError(f"a class name must be printable text; got {stripped!r}.")
    return stripped


def _shown(filename: str | None) -> str:
    """A client's file name, for error messages only."""
    if not filename:
        return "the image"
    printable = "".join(one if one.isprintable() else "?" for one in filename)
    short = printable if len(printable) <= _MAX_SHOWN else f"{printable[: _MAX_SHOWN - 3]}..."
    return f"'{short}'"
