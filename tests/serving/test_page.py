"""The page, driven in a real browser."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.digit_pictures import write_digits
from tests.support.http_client import RealServer

pytestmark = pytest.mark.browser


def best_guesses(page: Any) -> list[str]:
    return page.locator(".bars li:first-child span:nth-child(2)").all_inner_texts()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_reads_well(open_page: Any, tmp_path: Path, width: int, scheme: str) -> None:
    view = open_page(width, scheme)
    page = view.page
    page.set_input_files("#ask-files", write_digits(tmp_path, 0, 2, first=40))
    page.locator(".bars").nth(1).wait_for()
    assert best_guesses(page) == ["zero", "zero"]
    page.locator("#class-list").get_by_role("button", name="one").click()
    for index in range(4):
        picture = page.locator("#pairs img").nth(index)
        picture.scroll_into_view_if_needed()
        picture.evaluate("image => image.decode()")
        assert picture.evaluate("image => image.naturalWidth") == 8
    assert page.locator("#class-title").inner_text() == "one"
    assert "of 6 exemplars" in page.locator("#class-note").inner_text()
    view.assert_tidy()
    assert view.messages == []
    ground, ink = view.luminance("body", "background-color"), view.luminance("body", "color")
    assert abs(ground - ink) > 0.6
    assert (ground > 0.5) == (scheme == "light")


def test_a_phone_shows_the_accuracy_of_updates_without_scrolling(open_page: Any) -> None:
    page = open_page(390).page
    page.locator("#history tr").first.wait_for()
    place = page.get_by_role("columnheader", name="Accuracy").bounding_box()
    assert place["x"] + place["width"] <= 390


def test_a_phone_is_not_asked_to_drop_anything(server: RealServer, chromium: Any) -> None:
    context = chromium.new_context(
        viewport={"width": 390, "height": 900}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    page.goto(server.url)
    page.locator("#ask-drop").get_by_text("Choose or take photos").wait_for()
    shown = [text for text in page.locator(".drop").all_inner_texts() if "Drop" in text]
    assert shown == []
    context.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_the_docs_page_reads_well(open_page: Any, width: int) -> None:
    view = open_page(width, path="docs")
    view.assert_tidy()
    assert view.messages == []
    assert view.page.locator(".operations dt").count() == 12


def test_controls_have_names_and_can_be_reached_by_keyboard(open_page: Any) -> None:
    page = open_page().page
    page.locator("#class-list button").first.wait_for()
    for role, name in (
        ("textbox", "Name of the class"),
        ("button", "Teach"),
        ("list", "Classes"),
        ("heading", "What it remembers"),
        ("group", "One class"),
        ("checkbox", "Refuse if an old class loses more than"),
        ("spinbutton", "Points of accuracy that an old class may lose"),
        ("combobox", "The class of a file is"),
        ("button", "Add another class"),
    ):
        # A field with suggestions is a combobox to some browsers.
        exact = name == "Teach"
        found = page.get_by_role(role, name=name, exact=exact)
        found = found.or_(page.get_by_role("combobox", name=name))
        assert found.count() == 1, name
    names = page.locator("input[type=file]").evaluate_all(
        "all => all.map(one => one.labels[0].innerText.trim())"
    )
    assert all(names)
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id"))
    assert "" in reached  # the end of the page is reached, so nothing keeps the focus
    order = [
        "ask-files", "ask-camera", "name-1", "files-1", "add-group", "teach-folder", "guard-on",
        "guard-points", "teach-button", "check-files", "check-class", "check-folder",
    ]  # fmt: skip
    assert [one for one in reached if one in order][: len(order)] == order


def test_a_class_is_taught_seen_predicted_and_forgotten(open_page: Any, tmp_path: Path) -> None:
    view = open_page()
    page = view.page
    page.get_by_label("Name of the class").fill("five <b>")
    page.set_input_files("#files-1", write_digits(tmp_path, 5, 12))
    plan = page.locator("#teach-plan")
    assert plan.inner_text() == (
        "Method pixels with a network trained from scratch; images of 8 px."
    )
    page.locator("#teach-estimate").get_by_text("12 images will take about").wait_for()
    page.get_by_role("button", name="Teach with 12 images").click()
    page.get_by_text("five <b> has been learned").wait_for()
    page.set_input_files("#ask-files", write_digits(tmp_path, 5, 3, first=30))
    page.locator(".bars").nth(2).wait_for()
    assert best_guesses(page).count("five <b>") >= 2
    page.get_by_role("button", name="five <b>").click()
    page.locator("#pairs img").first.wait_for()
    assert "five <b>" in page.locator("#history").inner_text()
    page.get_by_role("button", name="Forget this class").click()
    page.get_by_role("button", name="Keep it").click()
    assert page.get_by_role("button", name="five <b>").count() == 1
    page.get_by_role("button", name="Forget this class").click()
    page.get_by_role("button", name="Forget it").click()
    page.get_by_text("is forgotten").wait_for()
    assert page.get_by_role("button", name="five <b>").count() == 0
    assert "1 class forgotten" in page.locator("#history").inner_text()
    assert view.messages == []


def test_slow_answers_change_nothing(open_page: Any, tmp_path: Path) -> None:
    """What the page reports is shown already, and files chosen early are not lost."""
    page = open_page().page
    page.route("**/api/classes", lambda route: (time.sleep(1), route.continue_()))
    page.reload(wait_until="commit")
    page.set_input_files("#ask-files", write_digits(tmp_path, 0, 1, first=40))
    page.locator(".bars").wait_for()
    page.locator("#class-list").get_by_role("button", name="two").click()
    page.get_by_role("button", name="Forget this class").click()
    page.get_by_role("button", name="Forget it").click()
    page.get_by_text("is forgotten").wait_for()
    assert page.get_by_role("button", name="two").count() == 0


def test_a_dropped_picture_is_classified(open_page: Any) -> None:
    page = open_page().page
    page.locator("#class-list button").first.wait_for()
    page.evaluate(
        """async () => {
          const canvas = new OffscreenCanvas(16, 16);
          canvas.getContext("2d").fillRect(0, 0, 16, 16);
          const data = new DataTransfer();
          data.items.add(new File([await canvas.convertToBlob()], "drawn.png"));
          const options = { dataTransfer: data, bubbles: true, cancelable: true };
          document.getElementById("ask-drop").dispatchEvent(new DragEvent("drop", options));
        }"""
    )
    page.locator(".bars").wait_for()
    assert page.locator(".answer .file").inner_text() == "drawn.png"


def test_errors_are_shown_on_the_page(open_page: Any, tmp_path: Path) -> None:
    page = open_page().page
    page.locator("#class-list button").first.wait_for()
    (tmp_path / "words.png").write_text("not a picture")
    page.set_input_files("#ask-files", str(tmp_path / "words.png"))
    page.get_by_text("'words.png' must be a whole JPEG").wait_for()
    assert page.locator(".answer").count() == 0
    (whole,) = write_digits(tmp_path, 3, 1)
    page.set_input_files("#ask-files", [str(tmp_path / "words.png"), whole])
    page.get_by_text("'words.png' must be a whole JPEG").wait_for()
    assert page.locator(".bars").count() == 1  # the other is answered
    page.locator("#teach-button").click()
    assert page.locator("#teach-error").inner_text() == "Enter the name of the class first."
    page.get_by_label("Name of the class").fill("seven")
    page.locator("#teach-button").click()
    assert page.locator("#teach-error").inner_text() == "Choose at least one image."
    page.set_input_files("#files-1", str(tmp_path / "words.png"))
    page.get_by_role("button", name="Teach with 1 image").click()
    page.locator("#teach-error").get_by_text("does not decode").wait_for()
    assert page.locator("#teach-button").is_enabled()
    page.set_input_files("#files-1", whole)
    page.get_by_role("button", name="Teach with 2 images").click()
    page.get_by_text("seven has been learned.").wait_for()
    assert page.locator("#teach-notes li").all_inner_texts() == [
        "1 unreadable image is left out: 'words.png'."
    ]


def test_a_picture_that_is_too_large_is_not_sent(open_page: Any, tmp_path: Path) -> None:
    view = open_page()
    view.page.locator("#class-list button").first.wait_for()
    noise = np.random.default_rng(0).integers(0, 256, 26 << 20, dtype=np.uint8)
    (tmp_path / "large.png").write_bytes(noise.tobytes())
    view.page.set_input_files("#ask-files", str(tmp_path / "large.png"))
    view.page.get_by_text("at most 25.0 MiB are accepted").wait_for()
    assert not any(url.endswith("/api/predict?top=5") for url in view.requests)
