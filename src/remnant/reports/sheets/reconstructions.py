"""The reconstruction figures: test images redrawn from some of their patches, task after task."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from remnant.files import write_bytes, write_text
from remnant.metrics import psnr
from remnant.reports.sheets.contact_sheet import (
    GAP,
    GROUND,
    QUIET_TEXT,
    TEXT,
    TILE,
    fit_tile,
    load_font,
)
from remnant.runs.run_folder import FIGURES, read_reconstructions

_SHOWN_STEPS = 4  # columns of tasks, as in the paper's figure
_HEAD, _FOOT = 40, 18  # pixels above the tiles and below each row
_KINDS = ("both", "main", "detail")


@dataclass(frozen=True)
class Tile:
    """One picture of a sheet with a few words beneath."""

    image: np.ndarray
    note: str = ""


def draw_reconstructions(folder: Path) -> list[Path]:
    """Draw the figures of a run whose method redraws images; nothing for others."""
    found = read_reconstructions(folder)
    if not found:
        return []
    steps = [dict(one.pictures) for one in found]
    shown = np.linspace(0, len(steps) - 1, min(_SHOWN_STEPS, len(steps))).round().astype(int)
    figures = folder / FIGURES
    written = [_draw_steps(steps, [int(i) for i in shown], found[-1].tasks, figures)]
    if "difference" in steps[-1]:
        written.append(_draw_residual(steps[-1], figures))
    return written


def _draw_steps(
    steps: Sequence[dict[str, np.ndarray]], shown: Sequence[int], tasks: Sequence[int], out: Path
) -> Path:
    last = steps[-1]
    kinds = [kind for kind in _KINDS if kind in last]
    headers = [("test image", 1), ("visible", 1)]
    headers += [(f"after task {index + 1}", len(kinds)) for index in shown]
    rows = []
    for place, task in enumerate(tasks):
        tiles: list[Tile | None] = [
            Tile(last["original"][place], f"task {task + 1}"),
            Tile(last["visible"][place]),
        ]
        for index in shown:
            tiles += [_redrawn(steps[index], kind, place) for kind in kinds]
        rows.append(tiles)
    names = {"both": "both branches", "main": "main branch", "detail": "detail branch"}
    path = out / "extra-1-reconstructions.png"
    _write(
        path,
        _sheet(headers, rows),
        "Redrawn from the visible patches",
        "One test image of several tasks. After each task, from left to right: "
        + ", ".join(names[kind] for kind in kinds)
        + ". Beneath: the kind, and PSNR in dB against the image. An image is redrawn only once "
        "its task has been learned.",
    )
    return path


def _redrawn(step: dict[str, np.ndarray], kind: str, place: int) -> Tile | None:
    if place >= len(step["original"]):
        return None
    image = step[kind][place]
    if kind == "detail":
        return Tile(image, kind)  # a correction, not an image: it has no PSNR of its own
    return Tile(image, f"{kind} {psnr(image, step['original'][place]):.1f}")


def _draw_residual(step: dict[str, np.ndarray], out: Path) -> Path:
    headers = [("test image", 1), ("x1", 1), ("x2", 1), ("x2 - x1", 1), ("its high band", 1)]
    kinds = ("original", "coarse", "fine", "difference", "high")
    rows: list[list[Tile | None]] = [
        [Tile(step[kind][place]) for kind in kinds] for place in range(len(step["original"]))
    ]
    path = out / "extra-2-detail-target.png"
    _write(
        path,
        _sheet(headers, rows),
        "What the detail branch learns",
        "x1 and x2 are the main reconstructions from few and from many patches; the high "
        "frequencies of their difference are the target of the detail branch.",
    )
    return path


def _sheet(headers: Sequence[tuple[str, int]], rows: Sequence[Sequence[Tile | None]]) -> bytes:
    """A PNG of tiles under headers that span one or more columns."""
    num_columns = sum(span for _, span in headers)
    gaps = GAP * (num_columns + 1) + 8 * len(headers)
    width = num_columns * TILE + gaps
    height = _HEAD + len(rows) * (TILE + _FOOT + GAP)
    sheet = Image.new("RGB", (width, height), GROUND)
    draw = ImageDraw.Draw(sheet)
    lefts, left = [], GAP
    for title, span in headers:
        block = span * TILE + (span - 1) * GAP
        draw.text((left + block / 2, _HEAD / 2), title, TEXT, load_font(12), anchor="mm")
        lefts += [left + index * (TILE + GAP) for index in range(span)]
        left += block + GAP + 8
    for number, tiles in enumerate(rows):
        top = _HEAD + number * (TILE + _FOOT + GAP)
        for place, tile in zip(lefts, tiles, strict=True):
            if tile is not None:
                sheet.paste(fit_tile(tile.image), (place, top))
                middle = (place + TILE / 2, top + TILE + _FOOT / 2)
                draw.text(middle, tile.note, QUIET_TEXT, load_font(10), anchor="mm")
    buffer = io.BytesIO()
    sheet.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def _write(path: Path, picture: bytes, title: str, caption: str) -> None:
    write_bytes(path, picture)
    words = json.dumps({"title": title, "caption": caption}, indent=2) + "\n"
    write_text(path.with_suffix(".json"), words)
