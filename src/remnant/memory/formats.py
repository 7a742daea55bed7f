"""The table of coders that a codec may send its pictures through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from remnant.memory.coders import Coder, Shape
from remnant.memory.jpeg import JpegCoder
from remnant.memory.webp import WebpCoder

FormatName = Literal["jpeg", "webp"]

FORMATS: dict[FormatName, Callable[[Shape], Coder]] = {"jpeg": JpegCoder, "webp": WebpCoder}
