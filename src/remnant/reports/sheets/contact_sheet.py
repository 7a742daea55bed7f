"""A contact sheet of the images that a memory holds."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from remnant.files import write_bytes

TILE = 64  # pixels, side of the square that an image is fitted into
GAP = 4
_LABEL_WIDTH = 120
_NOTE_WIDTH = 84
_MAX_ROWS = 60  # of a sheet that is still looked at
# Its own dark ground, so that the sheet looks the same on a light and on a dark page.
GROUND, TEXT, QUIET_TEXT = "#15191e", "#eef1f4", "#a9b4be"


def draw_gallery(
    rows: Sequence[tuple[str, Sequence[np.ndarray]]],
    path: Path,
    *,
    counts: Sequence[int] | None = None,
    limit: int = 12,
) -> None:
    """Write a PNG with one row per class: its name, then its first `limit` images.

    Images are uint8 [H, W, C], C 1 or 3. `counts` says how many exemplars each class holds when
    `rows` brings only some of them; what is not shown is noted as "+68 more". Only the first 60
    classes are drawn.
    """
    held = [len(images) for _, images in rows] if counts is None else list(counts)
    assert len(held) == len(rows), "counts needs one number per row"
    shown = list(zip(rows, held, strict=True))[:_MAX_ROWS]
    num_columns = max((min(limit, len(images)) for (_, images), _ in shown), default=0)
    has_notes = any(count > len(images[:limit]) for (_, images), count in shown)
    width = _LABEL_WIDTH + num_columns * (TILE + GAP) + (_NOTE_WIDTH if has_notes else GAP)
    num_hidden = len(rows) - len(shown)
    height = len(shown) * (TILE + GAP) + GAP + (28 if num_hidden else 0)
    sheet = Image.new("RGB", (width, height), GROUND)
    for index, ((name, images), count) in enumerate(shown):
        _draw_row(sheet, GAP + index * (TILE + GAP), name, images[:limit], count)
    if num_hidden:
        note = f"and {num_hidden:,} more classes"
        ImageDraw.Draw(sheet).text((_LABEL_WIDTH, height - 22), note, QUIET_TEXT, load_font(12))
    buffer = io.BytesIO()
    sheet.save(buffer, format="PNG", optimize=True)
    write_bytes(path, buffer.getvalue())


def _draw_row(
    sheet: Image.Image, top: int, name: str, images: Sequence[np.ndarray], count: int
) -> None:
    draw, middle = ImageDraw.Draw(sheet), top + TILE // 2
    draw.text((_LABEL_WIDTH - 10, middle), _shorten(name), TEXT, load_font(13), anchor="rm")
    left = _LABEL_WIDTH
    for image in images:
        tile = fit_tile(image)
        sheet.paste(tile, (left + (TILE - tile.width) // 2, top + (TILE - tile.height) // 2))
        left += TILE + GAP
    if count > len(images):
        note = f"+{count - len(images):,} more"
        draw.text((left + 6, middle), note, QUIET_TEXT, load_font(12), anchor="lm")


def fit_tile(image: np.ndarray) -> Image.Image:
    """Enlarged by a whole factor with hard pixel edges, or shrunk smoothly, into a tile."""
    picture = Image.fromarray(np.squeeze(image, 2) if image.shape[2] == 1 else image).convert("RGB")
    side = max(picture.size)
    if side <= TILE:
        factor = TILE // side
        size = (picture.width * factor, picture.height * factor)
        return picture.resize(size, Image.Resampling.NEAREST)
    size = (max(1, picture.width * TILE // side), max(1, picture.height * TILE // side))
    return picture.resize(size, Image.Resampling.BOX)


def _shorten(name: str) -> str:
    text, font = name, load_font(13)
    while font.getlength(text) > _LABEL_WIDTH - 18:
        name = name[:-1]
        text = name + "…"
    return text


def load_font(size: int) -> ImageFont.FreeTypeFont:
    # matplotlib brings this font with it, so the sheet is the same on every machine.
    return ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts/ttf/DejaVuSans.ttf"), size)
