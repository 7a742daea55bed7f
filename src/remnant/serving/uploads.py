"""Images that strangers send: refused by size and count before they are decoded."""

from __future__ import annotations

import io
import unicodedata

from fastapi import UploadFile

from remnant.data.decode import MAX_PIXELS, decode_stream
from remnant.errors import InputError
from remnant.learner.inputs import EncodedImage
from remnant.serving.schemas import UploadLimits

# Chosen: photographs of a telephone have 2 to 12 MB, and a class is taught with tens of them.
LIMITS = UploadLimits(
    image_bytes=25 << 20,
    images=200,
    request_bytes=256 << 20,
    pixels=MAX_PIXELS,
    name_characters=100,
)
_NAME_SHOWN = 60  # characters of a file's name in a sentence


class TooLargeError(InputError):
    """More was sent than is taken."""


def receive(upload: UploadFile) -> EncodedImage:
    """The content of an upload that proves to be a whole picture.

    Raises:
        TooLargeError: It has too many bytes.
        InputError: It is no picture, or one of too many pixels.
    """
    name = _shown(upload.filename)
    content = upload.file.read(LIMITS.image_bytes + 1)
    if len(content) > LIMITS.image_bytes:
        raise TooLargeError(
            f"{name} must have at most {LIMITS.image_bytes >> 20} MiB; it has more. Make it "
            "smaller."
        )
    decode_stream(io.BytesIO(content), 8, name)  # drafted, so a large JPEG is soon read
    return EncodedImage(name, content)


def receive_all(uploads: list[UploadFile]) -> list[EncodedImage]:
    """The contents of the uploads of a lesson.

    Raises:
        TooLargeError: They are too many, or one has too many bytes.
        InputError: One is no picture.
    """
    if len(uploads) > LIMITS.images:
        raise TooLargeError(
            f"a lesson takes at most {LIMITS.images} images; got {len(uploads):,}. Teach the class "
            "in several lessons."
        )
    return [receive(upload) for upload in uploads]


def check_name(name: str) -> str:
    """The name of a class as it is kept: without spaces around it.

    Raises:
        InputError: It is empty, too long, or cannot be shown on a line or put in an address.
    """
    stripped = name.strip()
    if not stripped:
        raise InputError("a class must have a name; got none. Write one.")
    if len(stripped) > LIMITS.name_characters:
        raise InputError(
            f"the name of a class must have at most {LIMITS.name_characters} characters; got "
            f"{len(stripped):,}."
        )
    # Categories C: control characters, surrogates and the like.
    if any(unicodedata.category(one)[0] == "C" for one in stripped) or stripped in (".", ".."):
        raise InputError(f"the name of a class must be printable text; got {stripped!r}.")
    return stripped


def _shown(filename: str | None) -> str:
    """A client's file name for a sentence; it is used for nothing else."""
    if not filename:
        return "the image"
    printable = "".join(one if one.isprintable() else "?" for one in filename)
    short = printable if len(printable) <= _NAME_SHOWN else f"{printable[: _NAME_SHOWN - 3]}..."
    return f"'{short}'"
