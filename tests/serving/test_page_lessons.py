"""Teaching folders, guarding, undoing, checking and the camera, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.digit_pictures import write_digits

pytestmark = pytest.mark.browser


def class_folders(folder: Path, count: int, first: int = 0, **digits: int) -> Path:
    """A folder per class, with a file that is no image in each."""
    for name, digit in digits.items():
        (folder / name).mkdir(parents=True)
        write_digits(folder / name, digit, count, first)
        (folder / name / "notes.txt").write_text("no image")
    return folder


def names(page: Any) -> list[str]:
    fields = page.locator("#groups input[type=text]")
    return [fields.nth(index).input_value() for index in range(fields.count())]


def taught(page: Any) -> set[str]:
    return set(page.locator("#class-list button span:first-child").all_inner_texts())


def test_a_folder_of_classes_is_taught_checked_and_undone(open_page: Any, tmp_path: Path) -> None:
    view = open_page(390)
    page = view.page
    page.locator("#class-list button").first.wait_for()
    before = taught(page)
    page.set_input_files("#teach-folder", str(class_folders(tmp_path / "new", 10, six=6, seven=7)))
    page.get_by_text("2 files left out").wait_for()
    assert page.locator("#teach-status").inner_text().endswith(": notes.txt, notes.txt.")
    assert sorted(names(page)) == ["seven", "six"]
    page.get_by_role("button", name="Teach with 20 images").click()
    page.get_by_text("have been learned").wait_for()
    assert taught(page) == before | {"six", "seven"}
    assert "lost accuracy" in page.locator("#result-summary").inner_text()
    view.assert_tidy()
    folder = class_folders(tmp_path / "test", 3, first=30, six=6, seven=7)
    (folder / "six").rename(folder / "six to be")
    (folder / "seven").rename(folder / "six")  # so that mistakes are certain
    (folder / "six to be").rename(folder / "seven")
    page.set_input_files("#check-folder", str(folder))
    page.locator("#check-mistakes li").first.wait_for()
    assert page.locator("#check-mistakes img").count() >= 4
    assert "predicted as" in page.locator("#check-mistakes li").first.inner_text()
    assert "of 6 images correct" in page.locator("#check-status").inner_text()
    view.assert_tidy()
    page.get_by_role("button", name="Undo the last update").click()
    page.get_by_role("button", name="Undo it").click()
    page.get_by_text("is as it was before its last update").wait_for()
    assert taught(page) == before
    assert page.locator("#undo").is_hidden()
    assert view.messages == []


def box_at_rest(page: Any, target: str) -> Any:
    """Where an element is once it has stopped moving, as it does while a page is being filled."""
    box = None
    while box != (now := page.locator(target).bounding_box()):
        box = now
        page.wait_for_timeout(500)
    return box


def test_dropped_folders_become_classes(open_page: Any, tmp_path: Path) -> None:
    view = open_page()
    page = view.page
    page.locator("#class-list button").first.wait_for()
    folder = class_folders(tmp_path / "new", 2, six=6, seven=7)
    box = box_at_rest(page, "#groups .drop")
    place = {"x": box["x"] + 20, "y": box["y"] + 20}
    data = {"items": [], "files": [str(folder)], "dragOperationsMask": 1}
    devtools = view.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        devtools.send("Input.dispatchDragEvent", {"type": kind, "data": data, **place})
    page.get_by_role("button", name="Teach with 4 images").wait_for()
    assert sorted(names(page)) == ["seven", "six"]


def test_groups_are_added_and_removed(open_page: Any, tmp_path: Path) -> None:
    page = open_page().page
    page.locator("#class-list button").first.wait_for()
    page.get_by_label("Name of the class").fill("six")
    page.set_input_files("#files-1", write_digits(tmp_path, 6, 2))
    page.get_by_role("button", name="Add another class").click()
    assert page.evaluate("document.activeElement.id") == "name-2"
    page.keyboard.type("seven")
    page.locator("#teach-button").click()
    page.get_by_text("Choose at least one image of seven.").wait_for()
    page.get_by_role("group", name="Class 2 of 2").get_by_role("button", name="Remove").click()
    assert names(page) == ["six"]
    assert page.evaluate("document.activeElement.id") == "name-1"
    page.get_by_role("button", name="Clear").click()
    assert names(page) == [""]


def test_the_guard_is_sent_and_a_refusal_is_told(open_page: Any, tmp_path: Path) -> None:
    """The server's part is played here: what it refuses is tested elsewhere."""
    page, sent = open_page().page, []
    page.locator("#class-list button").first.wait_for()
    job = {"id": 99, "name": "six", "classes": ["six"], "images": 2, "state": "running"}
    job |= {"share_done": 0, "doing": "preparing", "seconds_left": None, "error": None, "notes": []}
    refused = job | {"state": "refused", "error": "'zero' would fall."}
    page.route(
        "**/api/teach",
        lambda route: (sent.append(route.request.post_data_buffer), route.fulfill(json=job)),
    )
    page.route("**/api/jobs/99", lambda route: route.fulfill(json=refused))
    page.get_by_label("Name of the class").fill("six")
    page.set_input_files("#files-1", write_digits(tmp_path, 6, 2))
    page.get_by_label("Refuse if an old class loses more than").check()
    page.get_by_label("Points of accuracy").fill("-3")
    page.locator("#teach-button").click()
    page.get_by_text("must be a number from 0 to 100").wait_for()
    page.get_by_label("Points of accuracy").fill("7.5")
    page.locator("#teach-button").click()
    page.locator("#teach-error").get_by_text("'zero' would fall.").wait_for()
    assert b'name="guard"\r\n\r\n7.5\r\n' in sent[0]


def test_pictures_are_taken_for_asking_and_teaching(open_page: Any) -> None:
    view = open_page()
    page = view.page
    page.locator("#class-list button").first.wait_for()
    page.locator("#ask-camera").click()
    page.locator("#camera-take:enabled").wait_for()
    page.locator("#camera-take").click()
    page.locator(".bars").wait_for()
    assert page.evaluate("document.activeElement.id") == "ask-camera"
    page.locator("#groups").get_by_role("button", name="Use the camera").click()
    page.locator("#camera-take:enabled").wait_for()
    for count in ("1 picture taken.", "2 pictures taken."):
        page.locator("#camera-take").click()
        page.get_by_text(count).wait_for()
    page.get_by_role("button", name="Done").click()
    page.get_by_role("button", name="Teach with 2 images").wait_for()
    assert view.messages == []


def test_a_page_without_a_camera_says_why(open_page: Any) -> None:
    page = open_page().page
    page.locator("#class-list button").first.wait_for()
    page.evaluate("Object.defineProperty(navigator, 'mediaDevices', { get: () => undefined })")
    page.locator("#ask-camera").click()
    page.get_by_text("only to pages on localhost or behind https").wait_for()
    assert page.locator("#camera-take").is_disabled()
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "ask-camera"


def test_loose_files_are_checked_as_the_chosen_class(open_page: Any, tmp_path: Path) -> None:
    page = open_page().page
    page.locator("#class-list button").first.wait_for()
    page.set_input_files("#check-files", write_digits(tmp_path, 0, 3, first=50))
    page.get_by_text("Choose the class of these images").wait_for()
    page.get_by_label("The class of a file is").select_option("zero")
    page.set_input_files("#check-files", write_digits(tmp_path, 0, 3, first=50))
    page.get_by_text("of 3 images correct").wait_for()
