"""Data and folders that cannot be used: one sentence with exit code 2, and none is changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from remnant.archives import read_archive, write_archive
from tests.support.command_line import SETTINGS, Command, largest_file, write_pictures

CIFAR_TRAIN_BYTES = 50_000 * 3_074


# --------------------------------------------------------------------------------------------- data


def test_missing_data_says_what_to_put_where(command: Command, tmp_path: Path) -> None:
    sentence = command("run", "cifar100-mini-er").sentence
    assert str(tmp_path / "no-data" / "cifar-100-binary" / "train.bin") in sentence
    assert "remnant data get cifar100" in sentence
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (1_000, f"must have {CIFAR_TRAIN_BYTES:,} bytes; it has 1,000"),
        (CIFAR_TRAIN_BYTES, "must have SHA-1 e207cd2e"),
    ],
)
def test_damaged_data_is_never_used(
    command: Command, tmp_path: Path, size: int, expected: str
) -> None:
    folder = tmp_path / "data" / "cifar-100-binary"
    folder.mkdir(parents=True)
    with (folder / "train.bin").open("wb") as file:
        file.truncate(size)  # a hole: it takes no room on the disk
    for arguments in (("run", "cifar100-mini-er"), ("data", "check", "cifar100")):
        sentence = command(*arguments, "--data-root", tmp_path / "data").sentence
        assert expected in sentence
        assert "train.bin" in sentence
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def folder_settings(pictures: Path) -> list[str]:
    values = {"data.dataset": "folder", "data.path": pictures, "data.image_size": 8}
    values |= {"stream.num_tasks": 1}
    return [part for key, value in values.items() for part in ("--set", f"{key}={value}")]


def test_an_image_that_does_not_decode_is_named(command: Command, tmp_path: Path) -> None:
    pictures = write_pictures(tmp_path / "pictures", {"cat": 3, "dog": 3})
    broken = pictures / "dog" / "1.png"
    broken.write_bytes(broken.read_bytes()[:40])
    assert str(broken) in command("run", "digits-er", *folder_settings(pictures)).sentence
    (pictures / "cat" / "2.png").write_bytes(b"")
    told = command("run", "digits-er", *folder_settings(pictures)).err
    assert r"\n" not in told
    assert str(broken) in told  # all that must be mended, at once
    assert str(pictures / "cat" / "2.png") in told
    assert [path.name for path in tmp_path.iterdir()] == ["pictures"]


def test_a_class_with_too_few_images_is_named(command: Command, tmp_path: Path) -> None:
    pictures = write_pictures(tmp_path / "pictures", {"cat": 9, "dog": 3})
    settings = [*folder_settings(pictures), "--set", "data.images_per_class=4"]
    assert 'class "dog" has' in command("run", "digits-er", *settings).sentence
    assert [path.name for path in tmp_path.iterdir()] == ["pictures"]


# --------------------------------------------------------------------------------- places for a run


@pytest.mark.parametrize("more", [(), ("--seeds", "1,2")])
def test_a_folder_in_use_is_left_alone(
    command: Command, tmp_path: Path, more: tuple[str, ...]
) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "thesis.tex").write_text("mine")
    sentence = command("run", "digits-er", "--out", "used", *more).sentence
    assert "used is not empty: it holds thesis.tex. Choose another --out" in sentence
    assert [path.name for path in (tmp_path / "used").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("more", [(), ("--seeds", "1,2")])
def test_a_file_is_no_place_for_a_run(
    command: Command, tmp_path: Path, more: tuple[str, ...]
) -> None:
    (tmp_path / "file").write_text("mine")
    arguments = ("run", "digits-er", *more, "--out")
    assert "file must be a folder" in command(*arguments, "file").sentence
    assert "Nothing was written" in command(*arguments, "file/run").sentence
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_told(command: Command) -> None:
    sentence = command("run", "digits-er", "--out", "/proc/remnant/run").sentence
    assert sentence.startswith("/proc/remnant")
    assert "choose another --out" in sentence


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_not_writable_is_told(command: Command, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    assert "Permission denied" in command("run", "digits-er", "--out", "locked/run").sentence


def test_a_full_disk_ends_in_a_sentence_and_the_run_goes_on_after(
    command: Command, tmp_path: Path
) -> None:
    with largest_file(50_000):  # too little for a checkpoint of the network
        outcome = command("run", "digits-er", *SETTINGS, "--out", "run")
    assert outcome.code == 2
    assert "Traceback" not in outcome.err
    last = outcome.err.splitlines()[-1]
    assert last.startswith("remnant: ")
    assert last.endswith("Fix the problem, then: remnant resume run.")
    assert not list((tmp_path / "run").rglob("*.tmp"))
    assert command("resume", "run").code == 0
    assert json.loads((tmp_path / "run" / "result.json").read_text())["finished"] is True


# ----------------------------------------------------------------------------------- runs to resume


def test_a_cut_config_is_told_on_resume(command: Command, stopped: Path) -> None:
    path = stopped / "config.json"
    path.write_bytes(path.read_bytes()[:100])
    assert "config.json is not valid JSON: " in command("resume", stopped).sentence


def test_settings_of_another_version_are_told_on_resume(command: Command, stopped: Path) -> None:
    config = json.loads((stopped / "config.json").read_text())
    config["method"]["charm"] = 1
    (stopped / "config.json").write_text(json.dumps(config))
    (stopped / "environment.json").write_text('{"remnant": "9.0"}')
    sentence = command("resume", stopped).sentence
    assert "method.charm is not a setting" in sentence
    assert "written by remnant 9.0" in sentence


def test_a_damaged_checkpoint_is_told_on_resume(command: Command, stopped: Path) -> None:
    for path in (stopped / "checkpoint").iterdir():
        content = bytearray(path.read_bytes())
        content[-100] ^= 1
        path.write_bytes(content)
    before = {path: path.read_bytes() for path in (stopped / "checkpoint").iterdir()}
    assert "its checksum does not match" in command("resume", stopped).sentence
    assert {path: path.read_bytes() for path in (stopped / "checkpoint").iterdir()} == before


def test_a_checkpoint_of_another_version_is_told_on_resume(command: Command, stopped: Path) -> None:
    for path in (stopped / "checkpoint").iterdir():
        arrays, metadata = read_archive(path, "checkpoint", 1)
        write_archive(path, "checkpoint", 99, arrays, metadata)
    assert "has checkpoint format version 99; this remnant reads" in (
        command("resume", stopped).sentence
    )


def test_a_damaged_plan_of_several_runs_is_told_on_resume(command: Command, tmp_path: Path) -> None:
    (tmp_path / "several").mkdir()
    (tmp_path / "several" / "sweep.json").write_text("{")
    assert "sweep.json is not valid JSON: " in command("resume", "several").sentence
    (tmp_path / "several" / "sweep.json").write_text("[]")
    assert (
        "sweep.json must hold one JSON object, the configs of several runs"
        in command("resume", "several").sentence
    )
