"""Pictures in rows and columns under headers, with words beneath, as one PNG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from remnant.reports.sheets.contact_sheet import (
    GAP,
    GROUND,
    QUIET_TEXT,
    TEXT,
    TILE,
    fit_tile,
    load_font,
)

HEAD, FOOT = 40, 18  # pixels above the tiles and below each row
ROW = TILE + FOOT + GAP
_BETWEEN = 8  # pixels between the columns of two headers
MARKED_TEXT = "#f0b429"  # of words that are to be noticed


@dataclass(frozen=True)
class Tile:
    """One picture of a sheet with a few words beneath."""

    image: np.ndarray  # uint8 [H, W, C]
    note: str = ""


@dataclass(frozen=True)
class Note:
    """Words beneath all the tiles of a header."""

    text: str
    is_marked: bool = False


@dataclass(frozen=True)
class Row:
    """One row of a sheet: a tile or nothing for each column, and a note or none for each header."""

    tiles: Sequence[Tile | None]
    notes: Sequence[Note | None] = ()


def draw_sheet(headers: Sequence[tuple[str, int]], rows: Sequence[Row]) -> bytes:
    """A PNG of tiles under headers, each of which spans one or more columns."""
    blocks = _blocks(headers)
    sheet = Image.new("RGB", (blocks[-1][0] + blocks[-1][1] + GAP, HEAD + len(rows) * ROW), GROUND)
    draw = ImageDraw.Draw(sheet)
    for (title, _), (left, width) in zip(headers, blocks, strict=True):
        draw.text((left + width / 2, HEAD / 2), title, TEXT, load_font(12), anchor="mm")
    lefts = [
        left + index * (TILE + GAP)
        for (_, span), (left, _) in zip(headers, blocks, strict=True)
        for index in range(span)
    ]
    for number, row in enumerate(rows):
        top = HEAD + number * ROW
        for left, tile in zip(lefts, row.tiles, strict=True):
            if tile is not None:
                sheet.paste(fit_tile(tile.image), (left, top))
                _write_beneath(draw, tile.note, left, TILE, top, QUIET_TEXT)
        for (left, width), note in zip(blocks, row.notes, strict=False):
            if note is not None:
                colour = MARKED_TEXT if note.is_marked else QUIET_TEXT
                _write_beneath(draw, note.text, left, width, top, colour)
    buffer = io.BytesIO()
    sheet.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def _blocks(headers: Sequence[tuple[str, int]]) -> list[tuple[int, int]]:
    """Left edge and width of the columns of each header."""
    blocks, left = [], GAP
    for _, span in headers:
        width = span * TILE + (span - 1) * GAP
        blocks.append((left, width))
        left += width + GAP + _BETWEEN
    return blocks


def _write_beneath(
    draw: ImageDraw.ImageDraw, text: str, left: int, width: int, top: int, colour: str
) -> None:
    middle = (left + width / 2, top + TILE + FOOT / 2)
    draw.text(middle, text, colour, load_font(10), anchor="mm")
