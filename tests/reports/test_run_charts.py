from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from remnant.errors import InputError
from remnant.reports import draw_figures, draw_gallery, embed
from remnant.reports.charts.canvas import INK
from remnant.reports.charts.loss_charts import loss_curves
from remnant.reports.embed import inline_svg, raster_address
from remnant.runs.run_folder import read_run
from tests.support.broken_pictures import bomb
from tests.support.run_folders import WriteRun


def test_a_whole_run_has_every_chart(write_run: WriteRun) -> None:
    names = [path.name for path in draw_figures(write_run("run"))]
    assert names == [
        "accuracy.svg", "matrix.svg", "forgetting.svg", "confusion.svg", "losses.svg", "ledger.svg",
    ]  # fmt: skip


def test_equal_runs_give_equal_bytes(write_run: WriteRun) -> None:
    first, second = draw_figures(write_run("a")), draw_figures(write_run("b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_text_and_axes_take_the_colour_of_the_page(write_run: WriteRun) -> None:
    for path in draw_figures(write_run("run")):
        text = path.read_text()
        assert "currentColor" in text
        assert INK not in text


def test_cells_are_numbered_up_to_twelve_tasks(write_run: WriteRun) -> None:
    def matrix(num_tasks: int) -> str:
        draw_figures(folder := write_run(f"run-{num_tasks}", num_tasks=num_tasks))
        return (folder / "figures" / "matrix.svg").read_text()

    assert matrix(12).count(">98<") == 12
    assert matrix(13).count(">98<") == 0


def test_a_single_task_draws_no_curve_and_removes_an_old_one(write_run: WriteRun) -> None:
    folder = write_run("joint", num_tasks=1, with_memory=False)
    (folder / "figures").mkdir()
    (folder / "figures" / "accuracy.svg").write_text("old")
    assert [path.name for path in draw_figures(folder)] == ["confusion.svg", "losses.svg"]
    assert not (folder / "figures" / "accuracy.svg").exists()


def test_losses_join_tasks_and_count_a_repeated_step_once() -> None:
    events = [
        {"event": "step", "task": task, "phase": "train", "step": step, "num_steps": 2,
         "terms": {"classify": value}}
        for task, step, value in [(0, 0, 4.0), (0, 1, 9.0), (0, 1, 2.0), (1, 0, 3.0)]
    ]  # fmt: skip
    curves = loss_curves(events)
    steps, means = curves.terms["classify"]
    np.testing.assert_array_equal(steps, [0, 1, np.nan, 2])
    np.testing.assert_array_equal(means, [4, 2, np.nan, 3])
    assert curves.task_starts == [0, 2]


def test_long_runs_are_averaged_to_few_points_and_skip_what_is_not_finite() -> None:
    events = [
        {"event": "step", "task": 0, "phase": "train", "step": step, "num_steps": 5000,
         "loss": float("nan") if step == 7 else 1.0}
        for step in range(5000)
    ]  # fmt: skip
    steps, means = loss_curves(events).terms["loss"]
    assert len(steps) <= 240
    assert set(means) == {1.0}


def test_the_gallery_shows_pixels_enlarged_and_counts_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "figures" / "memory.png"
    images = [np.full((8, 8, 3), 10 * index, np.uint8) for index in range(20)]
    images[1] = np.arange(192, dtype=np.uint8).reshape(8, 8, 3)
    grey = np.full((16, 8, 1), 77, np.uint8)
    draw_gallery([("one", images), ("a name far too long", [grey])], path, counts=[80, 1], limit=3)
    with Image.open(path) as picture:
        sheet = np.asarray(picture)
    assert sheet.shape == (4 + 2 * 68, 120 + 3 * 68 + 84, 3)
    second = sheet[4:68, 188:252]
    np.testing.assert_array_equal(second, images[1].repeat(8, axis=0).repeat(8, axis=1))
    note = sheet[4:68, 120 + 3 * 68 :]
    assert note.max() > 120  # "+77 more" is written there
    assert (sheet[72:136, 120 + 68 :] == sheet[0, 0]).all()  # nothing more to say of class two


def test_a_gallery_of_many_classes_stays_bounded(tmp_path: Path) -> None:
    path = tmp_path / "memory.png"
    draw_gallery([(str(n), [np.zeros((300, 200, 3), np.uint8)]) for n in range(500)], path)
    with Image.open(path) as picture:
        assert picture.height < 4200


@pytest.mark.parametrize("name", [r"$\foo$", "US$1 a^_$", "a\x01b", "caf\udce9", "a\nb", r"\$"])
def test_any_name_of_a_class_can_be_drawn(write_run: WriteRun, name: str) -> None:
    folder = write_run("run", num_tasks=2, class_names=[name, "b", "c", "d"])
    (chart,) = [path for path in draw_figures(folder) if path.name == "confusion.svg"]
    assert inline_svg(chart.read_bytes(), "confusion", "")
    shown = "".join(one if one.isprintable() else "\ufffd" for one in name)
    assert f">{shown}<" in chart.read_text()


def test_an_inline_svg_keeps_its_drawing_and_loses_what_could_act() -> None:
    hostile = b"""<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"
      xmlns:xlink="http://www.w3.org/1999/xlink" onload="alert(1)"><script>alert(2)</script>
      <style>* { display: none }</style><foreignObject><p>hi</p></foreignObject>
      <image href="https://example.org/a.png"/><image xlink:href="data:image/png;base64,AA"/>
      <path id="p" style="fill: url(https://example.org/x)" clip-path="url(#c)"/>
      <use xlink:href="#p"/></svg>"""
    text = inline_svg(hostile, "name", 'a "label"')
    for gone in ("alert", "script", "style", "foreignObject", "example.org", "onload", "width"):
        assert gone not in text
    assert 'aria-label="a &quot;label&quot;"' in text
    assert 'id="name-p"' in text
    assert 'xlink:href="#name-p"' in text
    assert 'clip-path="url(#name-c)"' in text
    assert "data:image/png;base64,AA" in text


def test_a_damaged_picture_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"figures/extra-a\.svg"):
        inline_svg(b"<svg", "extra-a", "")
    (tmp_path / "extra-b.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"extra-b\.png"):
        raster_address(tmp_path / "extra-b.png", 1000)
    (tmp_path / "bomb.png").write_bytes(bomb())
    with pytest.raises(InputError, match=r"bomb\.png"):
        raster_address(tmp_path / "bomb.png", 1000)
    Image.new("L", (4, 4)).save(tmp_path / "large.png")
    monkeypatch.setattr(embed, "_MAX_PIXELS", 10)
    with pytest.raises(InputError, match=r"large\.png"):
        raster_address(tmp_path / "large.png", 1000)


def test_a_large_picture_is_made_to_fit(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (300, 300, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    assert len(raster_address(tmp_path / "noise.png", 20_000)) < 27_000
    assert raster_address(tmp_path / "noise.png", 10**6).startswith("data:image/png;base64,")


def test_predictions_are_those_after_the_last_task(write_run: WriteRun) -> None:
    predictions = read_run(write_run("run")).predictions()
    assert predictions is not None
    assert len(predictions[1]) == 60


def test_a_run_with_nothing_but_a_config_draws_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"method": {"name": "er"}}))
    assert draw_figures(tmp_path) == []
