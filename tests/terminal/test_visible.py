from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest
from PIL import Image

from remnant.learner import learn_into_store
from remnant.methods import METHODS
from remnant.terminal.visible import visible
from tests.support.command_line import Command
from tests.support.small_learner import TINY, TaughtPixels, stripes


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("daisy", "daisy"),
        ("Gänse, 雁, 👩\u200d🌾", "Gänse, 雁, 👩\u200d🌾"),
        ("\x1b[2Jx", r"\x1b[2Jx"),
        ("a\nremnant: all is well", r"a\nremnant: all is well"),
        ("a\r\u2028b\x9b", r"a\r\u2028b\x9b"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        (os.fsdecode(b"\xff"), r"\xff"),
        (7, "7"),
    ],
)
def test_what_does_not_show_is_spelt_out(name: object, shown: str) -> None:
    assert visible(name) == shown


@pytest.fixture
def pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "pixels", TaughtPixels)


def test_names_reach_the_terminal_as_one_line_without_escape_codes(
    command: Command, tmp_path: Path, pixels: None
) -> None:
    hostile = "\x1b[2J\nremnant: all is well"
    images, labels = stripes("a", "c")
    named = [hostile if label == "a" else label for label in labels]
    learn_into_store(tmp_path / "s.remnant", images, named, **TINY)
    Image.fromarray(images[0]).save(tmp_path / f"{hostile}.png")
    (tmp_path / f"{hostile}.jpg").write_bytes(b"no image")
    outcomes = [
        command("inspect", "s.remnant"),
        command("predict", "s.remnant", f"{hostile}.png", f"{hostile}.jpg"),
        command("predict", "s.remnant", f"{hostile}.png", "--csv"),
        command("forget", "s.remnant", hostile, "--yes"),
        command("forget", "s.remnant", hostile, "--yes"),
    ]
    for outcome in outcomes:
        assert "\x1b[2J" not in outcome.out + outcome.err
        lines = (outcome.out + outcome.err).splitlines()
        assert "remnant: all is well" not in [line.strip() for line in lines]


def test_what_pillow_says_of_broken_exif_is_not_printed(
    command: Command, tmp_path: Path, pixels: None
) -> None:
    learn_into_store(tmp_path / "s.remnant", *stripes("a", "c"), **TINY)
    exif = b"Exif\0\0II*\0\x08\0\0\0\x02\0" + b"\x12\x01\x03\0\xff\xff\0\0\x10\0\0\0" * 2
    Image.new("RGB", (8, 8)).save(tmp_path / "x.jpg", exif=exif)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with Image.open(tmp_path / "x.jpg") as picture:
            picture.getexif()
    assert told, "Pillow finds nothing wrong with this file"
    outcome = command("predict", "s.remnant", "x.jpg")
    assert outcome.code == 0
    assert outcome.err == ""
