"""The picture figures of the paper, drawn from what a run saved.

[bimae] Zhai et al., ICCV 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from remnant.errors import InputError
from remnant.reports.sheets.tile_sheet import Note, Row, Tile, draw_sheet
from remnant.runs.drawings import Drawings, read_drawings
from remnant.runs.events import setting
from remnant.runs.run_folder import read_reconstructions, read_run

# As in the figure of [bimae], from left to right.
_BRANCHES = {"both": "both branches", "detail": "detail branch", "main": "main branch"}
_GAIN = 3  # by which small differences are enlarged, to be seen


# --------------------------------------------------------------------------------- reconstructions


def reconstructions_figure(folder: Path) -> bytes:
    """Images of a few tasks, redrawn after these tasks, learned or not: a PNG.

    A row is a test image with the patches that were visible. Then come, for each moment, both
    branches together, the detail branch alone and the main branch alone; beneath, PSNR.

    Raises:
        InputError: The run drew no such images, or a file is damaged.
    """
    found = read_drawings(folder)
    if not found:
        raise InputError(
            f"{folder} has no redrawn images: its method does not draw, or it is of an older "
            "version. Run a bimae recipe."
        )
    last, names = found[-1], read_run(folder).task_names
    kinds = [kind for kind in _BRANCHES if kind in last.pictures]
    headers = [("image", 1), ("visible", 1)]
    headers += [(f"after task {one.task + 1}", len(kinds)) for one in found]
    rows = []
    for place, task in enumerate(last.tasks):
        tiles = [Tile(last.pictures[kind][place]) for kind in ("original", "visible")]
        tiles += [Tile(one.pictures[kind][place]) for one in found for kind in kinds]
        name = (names(task) or [""])[0]
        notes = [Note(f"task {task + 1}"), Note(name[:11]), *(_note(one, place) for one in found)]
        rows.append(Row(tiles, notes))
    return draw_sheet(headers, rows)


def _note(drawn: Drawings, place: int) -> Note:
    """PSNR of what was drawn after a task; marked while the images' task was to come."""
    scores = [f"{kind} {values[place]:.1f}" for kind, values in drawn.psnr.items()]
    is_unlearned = drawn.tasks[place] > drawn.task
    return Note(", ".join(scores) + (" dB, to come" if is_unlearned else " dB"), is_unlearned)


def reconstructions_caption(folder: Path) -> str:
    """What `reconstructions_figure` shows, in words."""
    found = read_drawings(folder)
    kinds = [words for kind, words in _BRANCHES.items() if kind in found[-1].pictures]
    return (
        "One test image of several tasks, and what is visible of it. After each task, from left to "
        f"right: {', '.join(kinds)}. Beneath: PSNR in dB, the mean over {found[-1].num_scored} "
        "test images of the task. Yellow: redrawn before the task of the image was learned."
    )


# ---------------------------------------------------------------------------------- detail example


def detail_figure(folder: Path) -> bytes:
    """What the detail branch learns, for a few test images after the last task: a PNG.

    x1 and x2 are drawn by the main branch from few and from many patches; then their difference and
    its high frequencies, around grey and enlarged three times.

    Raises:
        InputError: The run has no detail branch, or a file is damaged.
    """
    found = read_reconstructions(folder)
    if not found or "difference" not in found[-1].pictures:
        raise InputError(
            f"{folder} must be a run with a detail branch; it is not. Run a bimae recipe with "
            "method.has_detail_branch=true."
        )
    pictures, config = found[-1].pictures, read_run(folder).config
    few = _ratio_text(setting(config, "method.coarse_mask_ratio"))
    many = _ratio_text(setting(config, "method.fine_mask_ratio"))
    headers = [("image", 1), ("x1", 1), ("x2", 1), ("x2 - x1", 1), ("high", 1)]
    differences = _around_grey(pictures["fine"].astype(np.float64) - pictures["coarse"])
    high = pictures["high"].astype(np.float64)
    # On file it stands on the mean colour of the data set; by itself it has a mean of 0.
    high = _around_grey(high - high.mean(axis=(1, 2), keepdims=True))
    rows = []
    for place, task in enumerate(found[-1].tasks):
        columns: Sequence[tuple[np.ndarray, str]] = (
            (pictures["original"], f"task {task + 1}"),
            (pictures["coarse"], few),
            (pictures["fine"], many),
            (differences, f"times {_GAIN}"),
            (high, f"times {_GAIN}"),
        )
        rows.append(Row([Tile(images[place], note) for images, note in columns]))
    return draw_sheet(headers, rows)


DETAIL_CAPTION = (
    "x1 and x2 are drawn by the main branch from few and from many patches. The high frequencies "
    "of their difference are what the detail branch learns. Both are shown around grey, "
    f"{_GAIN} times enlarged."
)


def _ratio_text(ratio: object) -> str:
    return f"{100 * ratio:.0f} % hidden" if isinstance(ratio, float) else ""


def _around_grey(values: np.ndarray) -> np.ndarray:
    return (128 + _GAIN * values).round().clip(0, 255).astype(np.uint8)
