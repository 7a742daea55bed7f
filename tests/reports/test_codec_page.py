"""Claims about the page of a plan of codecs."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from remnant.reports import write_codec_page
from tests.support.views import View

HOSTILE = "<img src=x onerror=alert(1)>"


def make_row(codec: str, setting: str, exemplars: int, psnr: float | None, **more: Any) -> Any:
    return {
        "label": f"{codec} {setting}".rstrip(),
        "codec": codec,
        "setting": setting,
        "settings": {"name": codec},
        "options": [f"memory.codec={codec}"],
        "bytes_per_exemplar": 61_440 / max(1, exemplars),
        "shared_bytes": 0,
        "exemplars_per_class": exemplars,
        "psnr": psnr,
        "stored_ratio": 1.0,
        "encode_microseconds": 10.0,
        "decode_microseconds": 1.0,
        "is_on_front": True,
    } | more


def make_plan(rows: list[Any], size: int = 32, **more: Any) -> dict[str, Any]:
    return {
        "dataset": "cifar100",
        "num_classes": 100,
        "images_per_class": 500,
        "sample": 600,
        "budget": {"text": "60KiB/class", "bytes_per_class": 61_440},
        "image_shape": [size, size, 3],
        "rows": rows,
        "skipped": {},
    } | more


def make_pictures(num_rows: int, size: int = 32) -> list[list[np.ndarray]]:
    noise = np.random.default_rng(0).integers(0, 256, (8, size, size, 4), dtype=np.uint8)
    noise[..., 3] = 255
    noise[:, : size // 2, :, 3] = 0
    return [list(noise)] * num_rows


USUAL = [
    make_row("raw", "", 20, None),
    make_row("patches", "mask ratio 0.75", 79, None, stored_ratio=0.25),
    make_row("webp", "quality 60", 210, 29.9, shared_bytes=2_048),
    make_row("webp", "quality 30", 200, 27.0, is_on_front=False),
]


def images_of(page: Path) -> list[Image.Image]:
    found = re.findall(r"data:image/(?:png|webp);base64,([^\"]+)", page.read_text())
    return [Image.open(io.BytesIO(base64.b64decode(one))) for one in found]


def test_small_images_are_on_the_page_pixel_by_pixel(tmp_path: Path) -> None:
    pictures = make_pictures(4)
    shown = images_of(write_codec_page(make_plan(USUAL), pictures, tmp_path / "plan.html"))
    expected = [image for row in pictures for image in row]
    assert len(shown) == len(expected)
    for one, image in zip(shown, expected, strict=True):
        assert np.array_equal(np.asarray(one), image)


def test_a_page_of_large_images_stays_small(tmp_path: Path) -> None:
    rows = [make_row("webp", f"quality {quality}", quality, 30.0) for quality in range(1, 19)]
    page = write_codec_page(
        make_plan(rows, size=224), make_pictures(18, size=224), tmp_path / "plan.html"
    )
    assert page.stat().st_size < 3_000_000
    assert max(images_of(page)[0].size) == 128
    assert "Shown smaller than they are" in page.read_text()


def test_all_text_of_a_plan_is_escaped(tmp_path: Path) -> None:
    rows = [make_row(HOSTILE, HOSTILE, 20, 30.0, options=[HOSTILE])]
    plan = make_plan(rows, dataset=HOSTILE, skipped={HOSTILE: HOSTILE})
    text = write_codec_page(plan, make_pictures(1), tmp_path / "plan.html").read_text()
    assert HOSTILE not in text
    assert "&lt;img src=x" in text


def test_what_the_budget_cannot_hold_is_listed_but_not_drawn(tmp_path: Path) -> None:
    rows = [make_row("raw", "", 0, None, is_on_front=False)]
    text = write_codec_page(make_plan(rows), make_pictures(1), tmp_path / "plan.html").read_text()
    assert "<svg" not in text
    assert re.search(r'raw</th>.*<td class="number">0</td>', text)


def test_equal_plans_give_equal_pages(tmp_path: Path) -> None:
    pages = [
        write_codec_page(make_plan(USUAL), make_pictures(4), tmp_path / name).read_bytes()
        for name in ("a.html", "b.html")
    ]
    assert pages[0] == pages[1]


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_plan_reads_well(tmp_path: Path, chromium: Any, width: int, scheme: str) -> None:
    path = write_codec_page(make_plan(USUAL), make_pictures(4), tmp_path / "plan.html")
    view = View(chromium, path, width, scheme)
    view.assert_sound(path)
    assert view.page.locator("section.codec").count() == 4
    assert view.page.locator(".images img").count() == 32
    assert view.page.locator(".front").count() == 3
    tops = view.page.eval_on_selector_all(
        "section:first-of-type .images img", "images => images.map(one => one.offsetTop)"
    )
    assert len(set(tops)) == 1, "the images of a codec stand in one line"
    ground, ink = view.luminance("body", "background-color"), view.luminance("figure text", "fill")
    assert abs(ground - ink) > 0.6, "chart text must stand out from the page"
    view.context.close()
