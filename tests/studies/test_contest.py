"""`remnant contest`: somebody's own images, methods and codecs at equal bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import Command
from tests.support.picture_files import write_classes

TINY = ("--methods", "er,finetune", "--codecs", "raw", "--epochs", "1", "--image-size", "16",
        "--tasks", "2", "--budget", "4KiB/class")  # fmt: skip


@pytest.fixture
def images(tmp_path: Path) -> Path:
    write_classes(tmp_path / "images", dict.fromkeys("abcd", 6))
    return tmp_path / "images"


@pytest.mark.slow
def test_it_ends_with_a_verdict_a_page_and_the_line_to_type(
    command: Command, images: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shown = command("contest", images, *TINY, "--out", out)
    assert shown.code == 0, shown.err
    assert "At the end, on all classes: " in shown.out
    assert "next: remnant learn my.remnant" in shown.err
    page = (out / "contest-mini" / "index.html").read_text()
    assert "Methods and codecs on images" in page
    again = command("contest", images, *TINY, "--out", out)
    assert "2 runs, 2 done, 0 to do" in again.err
    assert command("study", out / "contest-mini").code == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--methods", "ers"), "is not one that can take part"),
        (("--codecs", "webq"), "--codecs"),
        (("--methods", "er", "--codecs", "raw"), "needs two to compare"),
        (("--budget", "many"), "budget"),
        (("--methods", "er,ranpac"), "ranpac stands on a pretrained encoder and er is trained"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    command: Command, images: Path, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    said = command("contest", images, *arguments, "--out", tmp_path / "out").sentence
    assert sentence in said
    assert not (tmp_path / "out").exists()


def test_a_folder_without_images_is_refused(command: Command, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    assert "nothing" in command("contest", tmp_path / "nothing", "--out", tmp_path / "o").sentence
