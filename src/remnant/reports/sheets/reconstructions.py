"""The picture figures of one run, in its figures folder: test images redrawn, task after task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from remnant.files import write_bytes, write_text
from remnant.metrics import psnr
from remnant.reports.sheets.paper_sheets import (
    DETAIL_CAPTION,
    detail_figure,
    reconstructions_caption,
    reconstructions_figure,
)
from remnant.reports.sheets.tile_sheet import Row, Tile, draw_sheet
from remnant.runs.drawings import read_drawings
from remnant.runs.run_folder import FIGURES, read_reconstructions

_SHOWN_STEPS = 4  # columns of tasks, as in the paper's figure
_KINDS = ("both", "main", "detail")


def draw_reconstructions(folder: Path) -> list[Path]:
    """Draw the figures of a run whose method redraws images; nothing for others."""
    found = read_reconstructions(folder)
    if not found:
        return []
    redrawn = folder / FIGURES / "extra-1-reconstructions.png"
    title = "Redrawn from the visible patches"
    if read_drawings(folder):
        caption = reconstructions_caption(folder)
        _write(redrawn, reconstructions_figure(folder), title, caption)
    else:  # a run of an older version
        steps = [dict(one.pictures) for one in found]
        _write(redrawn, _draw_steps(steps, found[-1].tasks), title, _caption(steps[-1]))
    if "difference" not in found[-1].pictures:
        return [redrawn]
    detail = folder / FIGURES / "extra-2-detail-target.png"
    _write(detail, detail_figure(folder), "What the detail branch learns", DETAIL_CAPTION)
    return [redrawn, detail]


def _draw_steps(steps: Sequence[dict[str, np.ndarray]], tasks: Sequence[int]) -> bytes:
    """Images of the tasks seen, after some of the tasks."""
    last = steps[-1]
    spread = np.linspace(0, len(steps) - 1, min(_SHOWN_STEPS, len(steps))).round()
    shown = [int(index) for index in spread]
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
        rows.append(Row(tiles))
    return draw_sheet(headers, rows)


def _caption(last: dict[str, np.ndarray]) -> str:
    names = {"both": "both branches", "main": "main branch", "detail": "detail branch"}
    return (
        "One test image of several tasks. After each task, from left to right: "
        + ", ".join(names[kind] for kind in _KINDS if kind in last)
        + ". Beneath: the kind, and PSNR in dB against the image. An image is redrawn only once "
        "its task has been learned."
    )


def _redrawn(step: dict[str, np.ndarray], kind: str, place: int) -> Tile | None:
    if place >= len(step["original"]):
        return None
    image = step[kind][place]
    if kind == "detail":
        return Tile(image, kind)  # a correction, not an image: it has no PSNR of its own
    return Tile(image, f"{kind} {psnr(image, step['original'][place]):.1f}")


def _write(path: Path, picture: bytes, title: str, caption: str) -> None:
    write_bytes(path, picture)
    words = json.dumps({"title": title, "caption": caption}, indent=2) + "\n"
    write_text(path.with_suffix(".json"), words)
