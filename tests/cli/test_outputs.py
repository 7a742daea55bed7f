"""Where commands write, what they suggest, and what they do when nobody reads on."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import Command, Outcome, write_pictures
from tests.support.run_folders import WriteRun


def suggested(outcome: Outcome) -> list[str]:
    (line,) = [one for one in outcome.err.splitlines() if one.startswith("next: ")]
    return shlex.split(line.removeprefix("next: "))


# ------------------------------------------------------------------------------------------- pages


def test_the_page_of_one_run_is_written_where_it_is_asked_for(
    command: Command, write_run: WriteRun, tmp_path: Path
) -> None:
    folder = write_run("run")
    assert command("report", folder).code == 0
    assert command("report", folder, "--out", tmp_path / "x.html").out == f"{tmp_path}/x.html\n"
    assert (tmp_path / "x.html").read_text() == (folder / "report.html").read_text()


@pytest.mark.parametrize("names", [("one",), ("one", "two")])
def test_a_folder_is_no_place_for_a_page(
    command: Command, write_run: WriteRun, tmp_path: Path, names: tuple[str, ...]
) -> None:
    folders = [write_run(name) for name in names]
    said = command("report", *folders, "--out", tmp_path).sentence
    assert said == f"--out must be a file; got the folder {tmp_path}. Add a file name."


@pytest.mark.parametrize("kind", ["table", "csv", "svg"])
def test_what_is_printed_takes_no_out(
    command: Command, write_run: WriteRun, tmp_path: Path, kind: str
) -> None:
    said = command("report", write_run("run"), "--format", kind, "--out", "x").sentence
    assert said.endswith(f"redirect the output instead: --format {kind} > FILE.")
    assert not (tmp_path / "x").exists()


# ------------------------------------------------------------------------------------- suggestions


def test_plan_measures_a_folder_and_suggests_the_same_with_a_page(
    command: Command, tmp_path: Path
) -> None:
    pictures = write_pictures(tmp_path / "my pictures", {"cat": 3, "dog": 3})
    words = ["--dataset", "folder", "--budget", "4KiB/class", "--set", "data.image_size=8"]
    words += ["--data-root", str(pictures), "--sample", "4"]
    outcome = command("plan", *words)
    assert outcome.code == 0, outcome.err
    assert suggested(outcome) == ["remnant", "plan", *words, "--html", "plan.html"]
    assert command(*suggested(outcome)[1:]).code == 0
    assert (tmp_path / "plan.html").exists()


# ------------------------------------------------------------------------------------------- pipes


@pytest.mark.parametrize("arguments", [("schema", "config"), ("list", "--json")])
def test_a_pipe_that_nobody_reads_ends_a_command_without_a_word(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "remnant", *arguments],
            stdout=writing,
            stderr=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")
