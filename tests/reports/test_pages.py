from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remnant.reports import draw_gallery, write_comparison, write_report
from tests.support.run_folders import MEMORY_SETTINGS, WriteRun
from tests.support.views import View

HOSTILE = "<img src=x onerror=alert(1)>"


def test_all_text_from_files_is_escaped(write_run: WriteRun) -> None:
    folder = write_run("run", dataset=HOSTILE, class_names=[HOSTILE] * 6, result={"order": HOSTILE})
    (folder / "figures").mkdir()
    (folder / "figures" / "extra-a.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    (folder / "figures" / "extra-a.json").write_text(json.dumps({"title": HOSTILE}))
    write_report(folder)
    page = write_comparison([folder], folder.parent / "comparison.html")
    for text in ((folder / "report.html").read_text(), page.read_text()):
        assert HOSTILE not in text
        assert "&lt;img src=x" in text


def test_a_report_is_small_even_with_large_pictures(write_run: WriteRun) -> None:
    folder = write_run("run", num_tasks=20)
    noise = np.random.default_rng(0).integers(0, 256, (12, 64, 64, 3), dtype=np.uint8)
    rows = [(f"class {index}", list(noise)) for index in range(20)]
    draw_gallery(rows, folder / "figures" / "memory.png")
    draw_gallery(rows, folder / "figures" / "extra-b.png")
    assert write_report(folder).stat().st_size < 3_000_000


def test_a_report_of_a_run_that_only_began_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"method": {"name": "er"}}))
    assert "This run is not finished" in write_report(tmp_path).read_text()


def test_what_a_method_decided_stands_on_the_page_with_its_curve(write_run: WriteRun) -> None:
    rows = [{"quality": 10, "ratio": 0.21}, {"quality": 50, "ratio": 0.87}]
    decision = {"name": "memory.codec.quality", "value": 50, "why": "So it is.", "curve": rows}
    text = write_report(write_run("run", result={"decisions": [decision]})).read_text()
    assert re.search(r"memory.codec.quality</code> = <strong>50</strong>. So it is.", text)
    assert re.search(r'<td class="number total">50</td><td class="number total">0.87</td>', text)
    assert "What the method decided" not in write_report(write_run("other")).read_text()


def test_bytes_that_do_not_count_are_listed_without_a_share(write_run: WriteRun) -> None:
    settings = {"memory": MEMORY_SETTINGS | {"count_overhead": False}}
    text = write_report(write_run("run", settings=settings)).read_text()
    assert "raw, 60KiB/class (pixels only)" in text
    assert re.search(r"lengths</th><td[^>]*>48</td><td[^>]*>not counted<", text)


@pytest.mark.parametrize(("sizes", "is_told"), [([5, 10, 15], True), ([100, 101, 102], False)])
def test_costs_stand_beside_the_tasks_where_the_network_grows(
    write_run: WriteRun, sizes: list[int], is_told: bool
) -> None:
    costs = {
        "parameters_per_task": [1_000_000 * size for size in sizes],
        "predict_flops_per_task": [7_000_000 * size for size in sizes],
    }
    text = write_report(write_run("run", result=costs)).read_text()
    assert (">Parameters</th>" in text) is is_told
    if is_told:
        assert re.search(r">10.0 M</td><td[^>]*>70.0 M</td></tr>", text)


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_report_reads_well(write_run: WriteRun, chromium: Any, width: int, scheme: str) -> None:
    folder = write_run("run", class_names=["a-class-name-without-end" * 3] * 6)
    images = [np.full((32, 32, 3), 90, np.uint8)] * 12
    draw_gallery([("a", images), ("b", images)], folder / "figures" / "memory.png", counts=[20, 20])
    path = write_report(folder)
    view = View(chromium, path, width, scheme)
    view.assert_sound(path)
    values = view.page.locator(".card .value").all_inner_texts()
    assert values == ["93.0 %", "88.0 %", "15.0 points", "357.4 KiB", "464 k", "1 min 15 s"]
    assert view.page.locator("figure svg[role=img][aria-label]").count() == 6
    assert view.page.locator("#figure-memory img").evaluate("image => image.naturalWidth") > 500
    ground, ink = view.luminance("body", "background-color"), view.luminance("figure text", "fill")
    assert abs(ground - ink) > 0.6, "chart text must stand out from the page"
    assert (ground > 0.5) == (scheme == "light")
    view.context.close()


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_an_unfinished_run_says_so_and_how_to_go_on(
    write_run: WriteRun, chromium: Any, width: int
) -> None:
    folder = write_run("run", num_done=2)
    (folder / "result.json").unlink()
    path = write_report(folder)
    view = View(chromium, path, width, "light")
    view.assert_sound(path)
    notice = view.page.locator(".notice").inner_text()
    assert "2 of 3 tasks are done" in notice
    assert "remnant resume" in notice
    view.context.close()


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_comparison_reads_well_and_its_table_can_be_copied(
    write_run: WriteRun, chromium: Any, width: int, scheme: str
) -> None:
    write_run("runs/er-0", accuracies=[90.0, 80.0, 70.0])
    write_run("runs/er-1", accuracies=[90.0, 80.0, 74.0], seed=1)
    write_run("runs/cut", seed=2, num_done=1)
    runs = write_run("runs/finetune", method="finetune", with_memory=False).parent
    path = write_comparison([runs], runs.parent / "comparison.html")
    view = View(chromium, path, width, scheme)
    view.assert_sound(path)
    page = view.page
    assert "72.00 ± 2.83" in page.get_by_role("region", name="Results").inner_text()
    assert "cut" in page.locator(".notice").inner_text()
    assert page.locator("figure svg[role=img]").count() == 3
    view.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as Markdown").click()
    page.get_by_text("Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator("#copy-1").text_content()
    assert copied.startswith("| Method |")
    view.context.close()


@pytest.mark.browser
def test_a_phone_shows_average_and_last_accuracy_beside_the_names(
    write_run: WriteRun, chromium: Any
) -> None:
    names = ("cifar100-mini-expandable-pruned", "cifar100-mini-bimae-coded-patches")
    runs = [write_run(f"runs/{name}", method=name) for name in names]
    path = write_comparison([runs[0].parent], runs[0].parent.parent / "comparison.html")
    view = View(chromium, path, 390, "light")
    table = view.page.get_by_role("region", name="Results")
    for header in ("Avg", "Last"):
        box = table.get_by_role("columnheader", name=header, exact=True).bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 390
    view.context.close()


@pytest.mark.browser
def test_a_phone_breaks_no_short_name_into_letters(write_run: WriteRun, chromium: Any) -> None:
    runs = [write_run(f"runs/{name}", method=name) for name in ("bimae", "er")]
    path = write_comparison([runs[0].parent], runs[0].parent.parent / "comparison.html")
    view = View(chromium, path, 390, "light")
    view.assert_sound(path)
    heights = view.page.locator("tbody th").evaluate_all(
        "(cells => cells.filter(cell => cell.innerText == 'bimae').map(cell => cell.offsetHeight))"
    )
    assert len(heights) == 2  # among the results, and after each task
    assert max(heights) < 50, "one line"
    view.context.close()


def test_runs_that_are_not_on_equal_terms_are_warned_of(write_run: WriteRun) -> None:
    runs = [write_run(f"runs/{count}", num_tasks=count) for count in (2, 5)]
    page = write_comparison(runs, runs[0].parent.parent / "page.html").read_text()
    assert "Not on equal terms" in page
    assert "2 tasks of 2" in page
    assert "Not on equal terms" not in write_comparison(runs[:1], runs[0] / "x.html").read_text()
