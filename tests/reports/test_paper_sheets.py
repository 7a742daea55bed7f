from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from remnant.errors import InputError
from remnant.reports import detail_figure, draw_figures, reconstructions_figure
from remnant.reports.sheets.contact_sheet import GAP, TILE
from remnant.reports.sheets.paper_sheets import reconstructions_caption
from remnant.reports.sheets.tile_sheet import HEAD, MARKED_TEXT, ROW
from remnant.runs.drawings import Drawings, write_drawings
from remnant.runs.run_folder import Reconstructions, write_reconstructions
from tests.support.run_folders import WriteRun

TASKS = [0, 1, 2]


def save_drawings(folder: Path, *, kinds: tuple[str, ...] = ("both", "main", "detail")) -> None:
    """After each of three tasks: image k has the value 40 k, and 10 (task + 1) more redrawn."""
    for task in TASKS:
        original = np.stack([np.full((8, 8, 3), 40 * place, np.uint8) for place in TASKS])
        pictures = {"original": original, "visible": original + 1}
        pictures |= dict.fromkeys(kinds, original + 10 * (task + 1) + 2)
        psnr = {kind: [20.0 + task, 21.0, 22.0] for kind in kinds if kind != "detail"}
        write_drawings(folder, Drawings(task, pictures, TASKS, psnr, 32))


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)))


def test_every_image_is_shown_after_every_task_also_before_its_own(write_run: WriteRun) -> None:
    folder = write_run("run")
    save_drawings(folder)
    sheet = pixels(reconstructions_figure(folder))
    assert len(sheet) == HEAD + 3 * ROW
    for place in TASKS:
        line = sheet[HEAD + place * ROW + TILE // 2]
        for task in TASKS:
            shown = (line == 40 * place + 10 * (task + 1) + 2).all(axis=1)
            assert shown.sum() == 3 * TILE, (place, task)


def test_images_of_tasks_to_come_are_marked(write_run: WriteRun) -> None:
    folder = write_run("run")
    save_drawings(folder)
    sheet = pixels(reconstructions_figure(folder))
    colour = tuple(bytes.fromhex(MARKED_TEXT[1:]))
    width = 3 * TILE + 2 * GAP
    left = sheet.shape[1] - GAP - 3 * width - 2 * (GAP + 8)
    marked = [
        [
            bool((sheet[_foot(place), _columns(left, width, task)] == colour).all(axis=2).any())
            for task in TASKS
        ]
        for place in TASKS
    ]
    assert marked == [[False, False, False], [True, False, False], [True, True, False]]


def _foot(place: int) -> slice:
    return slice(HEAD + place * ROW + TILE, HEAD + (place + 1) * ROW)


def _columns(left: int, width: int, task: int) -> slice:
    first = left + task * (width + GAP + 8)
    return slice(first, first + width)


def test_a_network_without_detail_branch_has_one_column_per_moment(write_run: WriteRun) -> None:
    folder = write_run("run")
    save_drawings(folder, kinds=("main",))
    sheet = pixels(reconstructions_figure(folder))
    assert sheet.shape[1] < 6 * (TILE + 2 * GAP + 8)
    assert "right: main branch." in reconstructions_caption(folder)


def test_a_run_that_did_not_draw_is_refused(write_run: WriteRun) -> None:
    with pytest.raises(InputError, match="has no redrawn images"):
        reconstructions_figure(write_run("run"))
    with pytest.raises(InputError, match="must be a run with a detail branch"):
        detail_figure(write_run("other"))


def save_detail(folder: Path) -> None:
    grey = np.full((2, 8, 8, 3), 100, np.uint8)
    high = grey.copy()
    high[:, ::2] += 10
    high[:, 1::2] -= 10
    pictures = {
        "original": grey,
        "coarse": grey,
        "fine": grey + 7,
        "difference": grey,
        "high": high,
    }
    pictures |= {"visible": grey, "both": grey, "main": grey, "detail": grey}
    write_reconstructions(folder, 2, Reconstructions(pictures, [0, 2], {}))


def test_differences_are_enlarged_around_grey(write_run: WriteRun) -> None:
    folder = write_run("run", settings={"method": {"coarse_mask_ratio": 0.75}})
    save_detail(folder)
    sheet = pixels(detail_figure(folder))
    assert len(sheet) == HEAD + 2 * ROW
    tiles = sheet[HEAD : HEAD + TILE]
    values = [tiles[:, GAP + 3 + place * (TILE + GAP + 8)][:, 0] for place in range(5)]
    assert [sorted(set(one.tolist())) for one in values] == [
        [100], [100], [107], [128 + 3 * 7], [128 - 3 * 10, 128 + 3 * 10],
    ]  # fmt: skip


def test_the_page_of_a_run_shows_both_figures(write_run: WriteRun) -> None:
    folder = write_run("run")
    save_drawings(folder)
    save_detail(folder)
    draw_figures(folder)
    figures = folder / "figures"
    assert (figures / "extra-1-reconstructions.png").read_bytes() == reconstructions_figure(folder)
    assert (figures / "extra-2-detail-target.png").read_bytes() == detail_figure(folder)
