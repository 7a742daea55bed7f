from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

from remnant.archives import write_archive
from remnant.reports import draw_figures, write_report
from tests.support.run_folders import WriteRun


def save_step(folder: Path, task: int, tasks: list[int], *, with_detail: bool = True) -> None:
    """What a run saves after a task: a few images and how they were redrawn."""
    original = np.full((len(tasks), 8, 8, 3), 100, dtype=np.uint8)
    arrays = {"original": original, "visible": original, "main": original + 10}
    if with_detail:
        arrays |= dict.fromkeys(("coarse", "fine", "difference", "high", "detail"), original)
        arrays["both"] = original + 1
    path = folder / "reconstructions" / f"task-{task:03d}.safetensors"
    write_archive(path, "reconstructions", 1, arrays, {"tasks": tasks, "scores": {}})


def test_a_run_that_redraws_gets_both_figures(write_run: WriteRun) -> None:
    folder = write_run("run")
    save_step(folder, 0, [0])
    save_step(folder, 1, [0, 1])
    names = [path.name for path in draw_figures(folder)]
    assert names[-2:] == ["extra-1-reconstructions.png", "extra-2-detail-target.png"]
    words = json.loads((folder / "figures" / "extra-1-reconstructions.json").read_text())
    assert "both branches, main branch, detail branch" in words["caption"]


def test_an_image_is_shown_only_after_its_task(write_run: WriteRun) -> None:
    folder = write_run("run")
    save_step(folder, 0, [0])
    save_step(folder, 1, [0, 1])
    draw_figures(folder)
    sheet = np.asarray(Image.open(folder / "figures" / "extra-1-reconstructions.png"))
    middle = sheet[40 + 32 :: 86][:2]  # the middle line of both rows of tiles
    is_drawn = (middle == 101).all(axis=2)  # the colour of what both branches redrew
    assert is_drawn[0].sum() == 2 * 64
    assert is_drawn[1].sum() == 64


def test_a_network_without_detail_branch_has_one_figure(write_run: WriteRun) -> None:
    folder = write_run("run")
    save_step(folder, 0, [0], with_detail=False)
    names = [path.name for path in draw_figures(folder)]
    assert names[-1] == "extra-1-reconstructions.png"


def test_the_page_shows_the_figures_with_their_words(write_run: WriteRun) -> None:
    folder = write_run("run")
    save_step(folder, 0, [0])
    page = write_report(folder).read_text()
    assert "Redrawn from the visible patches" in page
    assert "What the detail branch learns" in page
