"""`remnant contest`: somebody's own images, methods and codecs at equal bytes."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from remnant import learner
from remnant.learner.encoder_choice import takes_encoder
from remnant.learner.learner_state import LearnerParameters
from remnant.learner.update_plan import plan_update
from remnant.studies.contest import (
    ContestRequest,
    contest_study,
    contestants,
    fingerprint_of,
    learn_command,
)
from remnant.studies.evidence import Cell
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
    assert "Methods and codecs on images\n" in shown.out
    (line,) = [one for one in shown.err.splitlines() if one.startswith("next: remnant learn ")]
    learned = command(*shlex.split(line)[2:], "--epochs", "1")
    assert learned.code == 0, learned.err
    page = (out / "contest-mini" / "index.html").read_text()
    assert "Methods and codecs on images" in page
    again = command("contest", images, *TINY, "--out", out)
    assert "2 runs, 2 done, 0 to do" in again.err
    assert command("study", out / "contest-mini").code == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--methods", "ers"), "got 'ers'. Did you mean er?"),
        (("--methods", "er,bimae-full"), "got 'bimae-full'. Did you mean bimae?"),
        (("--methods", "dytox-plus,er"), "got 'dytox-plus'. Did you mean dytox?"),
        (("--methods", "er,er"), "--methods takes each value once; got er twice"),
        (("--methods", "er,joint"), "joint trains on all classes at once"),
        (("--codecs", "webq"), "--codecs"),
        (("--methods", "er", "--codecs", "raw"), "needs at least two entries"),
        (("--budget", "many"), "budget"),
        (("--methods", "er,ranpac"), "ranpac uses a pretrained encoder and er is trained"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    command: Command, images: Path, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    said = command("contest", images, *arguments, "--out", tmp_path / "out").sentence
    assert sentence in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("is_pretrained", [False, True])
def test_learn_accepts_the_line_of_whoever_wins(
    command: Command, images: Path, monkeypatch: pytest.MonkeyPatch, is_pretrained: bool
) -> None:
    def plan_only(store: Path, folder: Path, *, test: None, **parameters: Any) -> None:
        plan_update(None, LearnerParameters.of(parameters), folder, None, test, "cpu")
        sys.exit(0)  # accepted: it would train now

    monkeypatch.setattr(learner, "learn_into_store", plan_only)
    request = ContestRequest(
        folder=str(images),
        budget="60KiB/class",
        methods=[name for name in contestants() if takes_encoder(name) == is_pretrained],
        codecs=["transform", "raw"],
        image_size=16,
    )
    study = contest_study(request)
    for row in study.rows:
        line = learn_command(Cell(row, study.columns["mini"][0], {}, ()), request)
        assert command(*shlex.split(line)[1:]).code == 0, line


def test_of_a_folder_with_splits_the_training_images_are_to_be_learned(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write_classes(tmp_path / "images" / split, dict.fromkeys("abcd", 2))
    request = ContestRequest(
        folder=str(tmp_path / "images"),
        budget="60KiB/class",
        methods=["er", "finetune"],
        codecs=["raw"],
        image_size=16,
    )
    study = contest_study(request)
    line = learn_command(Cell(study.rows[0], study.columns["mini"][0], {}, ()), request)
    assert shlex.split(line)[3] == str(tmp_path / "images" / "train")


def test_other_images_are_another_contest(images: Path) -> None:
    before = fingerprint_of(images)
    (images / ".DS_Store").touch()
    (images / "a" / ".DS_Store").touch()
    assert fingerprint_of(images) == before
    (images / "a" / "lost.png").symlink_to("nowhere.png")
    assert fingerprint_of(images) != before
    (images / "a" / "lost.png").unlink()
    with next(images.rglob("*.png")).open("ab") as file:
        file.write(b"x")
    assert fingerprint_of(images) != before


def test_a_folder_without_images_is_refused(command: Command, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    assert "nothing" in command("contest", tmp_path / "nothing", "--out", tmp_path / "o").sentence
