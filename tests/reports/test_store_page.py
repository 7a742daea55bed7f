"""Claims about the page of a store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remnant.reports import write_store_page
from remnant.reports.store_page import Exemplar
from tests.support.views import View

HOSTILE = "<img src=x onerror=alert(1)>"


def make_facts(*names: Any, size: int = 32, **more: Any) -> dict[str, Any]:
    update = {
        "when": "2024-05-01",
        "classes": list(names),
        "known_classes": [],
        "images": 1200,
        "epochs": 10,
        "seconds": 61.0,
        "accuracy": 81.25,
        "memory_bytes": 5000,
    }
    return {
        "store": "folder/flowers.remnant",
        "file_bytes": 3_500_000,
        "method": "bimae",
        "image_size": size,
        "parameters": 1_500_000,
        "classes": [{"name": name, "exemplars": 90, "bytes": 6000} for name in names],
        "memory": {
            "budget": "60KiB/class",
            "budget_bytes": 61_440 * len(names),
            "used_bytes": 6000 * len(names),
            "codec": "coded-patches",
            "exemplars": 90 * len(names),
        },
        "history": [update, {"when": "2024-05-02", "forgotten_classes": 1}],
        "is_update_unfinished": False,
        "settings": {},
    } | more


def make_exemplars(count: int = 6, size: int = 32, *, is_partial: bool = True) -> list[Exemplar]:
    noise = np.random.default_rng(0).integers(0, 256, (count, size, size, 4), dtype=np.uint8)
    noise[..., 3] = 255
    return [(one, one[..., :3] if is_partial else None, 68) for one in noise]


def page_of(tmp_path: Path, facts: dict[str, Any], exemplars: list[Exemplar]) -> str:
    shown = [exemplars] * len(facts["classes"])
    return write_store_page(facts, shown, tmp_path / "store.html").read_text()


def test_a_page_tells_figures_updates_and_classes(tmp_path: Path) -> None:
    text = page_of(tmp_path, make_facts("daisy", "tulip"), make_exemplars())
    assert "<h1>flowers.remnant</h1>" in text
    for figure in ("3.3 MiB", "81.2 %", "11.7 KiB", "1 forgotten", "90 exemplars", "daisy, tulip"):
        assert figure in text
    assert text.count("as stored") == 1 + 12
    assert text.count(", completed") == 12
    assert "the first 6 shown" in text
    assert "was stopped" not in text
    assert "was stopped" in page_of(
        tmp_path, make_facts("daisy", is_update_unfinished=True), make_exemplars()
    )


def test_whole_exemplars_stand_alone(tmp_path: Path) -> None:
    text = page_of(tmp_path, make_facts("daisy"), make_exemplars(is_partial=False))
    assert text.count("<img") == 6
    assert "hatched" not in text


def test_a_store_without_a_memory_has_a_page(tmp_path: Path) -> None:
    facts = make_facts("daisy", memory=None)
    facts["classes"][0] |= {"exemplars": 0, "bytes": 0}
    text = page_of(tmp_path, facts, [])
    assert "bimae keeps no images" in text
    assert "0 exemplars" in text


def test_names_are_escaped(tmp_path: Path) -> None:
    facts = make_facts(HOSTILE, store=HOSTILE, method=HOSTILE)
    text = page_of(tmp_path, facts, make_exemplars())
    assert HOSTILE not in text
    assert "&lt;img src=x" in text


def test_large_exemplars_are_shown_smaller(tmp_path: Path) -> None:
    text = page_of(tmp_path, make_facts("daisy", size=224), make_exemplars(size=224))
    assert "Shown smaller than they are" in text
    assert len(text) < 1_000_000


def test_equal_stores_give_equal_pages(tmp_path: Path) -> None:
    pages = {page_of(tmp_path, make_facts("daisy"), make_exemplars()) for _ in range(2)}
    assert len(pages) == 1


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_a_store_reads_well(tmp_path: Path, chromium: Any, width: int) -> None:
    names = ["daisy", "x" * 80, "a rather long name of a class", "数字"]
    page_of(tmp_path, make_facts(*names), make_exemplars())
    view = View(chromium, tmp_path / "store.html", width, "light")
    view.assert_sound(tmp_path / "store.html")
    assert view.page.locator("section.class").count() == 4
    pair = view.page.locator(".pair").first.locator("img")
    boxes = [pair.nth(index).bounding_box() for index in range(2)]
    assert boxes[0]["y"] == boxes[1]["y"], "stored and completed stand side by side"
    assert boxes[0]["width"] >= 40, "an exemplar is large enough to be looked at"
    assert not re.search(r"<a [^>]*href=\"http", view.page.content())
    view.context.close()
