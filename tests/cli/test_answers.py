"""What commands answer: lists, plans, runs and the next thing to type."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import remnant
from remnant.training import devices, launchers
from tests.support.command_line import SETTINGS, Command, write_pictures

# ---------------------------------------------------------------------------- help, lists and plans


def test_help_imports_neither_torch_nor_lightning() -> None:
    code = (
        "import sys; from remnant.cli import main; sys.argv = ['remnant', '--help']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'lightning_fabric', 'numpy', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Class-incremental" in done.stdout


def test_version_is_told(command: Command) -> None:
    assert command("--version").out.strip() == remnant.__version__


@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "methods"),
        ("list", "datasets"),
        ("list", "recipes"),
        ("list", "codecs"),
        ("data", "list"),
        ("show", "digits-er"),
    ],
)
def test_json_is_all_of_standard_output(command: Command, arguments: tuple[str, ...]) -> None:
    outcome = command(*arguments, "--json")
    assert outcome.code == 0
    assert json.loads(outcome.out)
    assert outcome.err == ""


@pytest.mark.parametrize("what", ["methods", "datasets", "recipes", "codecs"])
def test_lists_cut_no_name_in_80_columns(command: Command, what: str) -> None:
    names = [row["name"] for row in json.loads(command("list", what, "--json").out)]
    shown = command("list", what).out
    assert set(names) <= set(re.split(r"\s+", shown))
    assert "…" not in shown
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= 80


def test_list_without_an_argument_says_what_can_be_listed(command: Command) -> None:
    rows = {row["name"]: row for row in json.loads(command("list", "--json").out)}
    assert list(rows) == ["methods", "datasets", "recipes", "codecs"]
    shown = command("list").out
    for kind, row in rows.items():
        assert row["count"] == len(json.loads(command("list", kind, "--json").out))
        assert f"remnant list {kind}" in shown


def test_a_list_can_be_filtered_by_a_part_of_the_name(command: Command) -> None:
    names = [row["name"] for row in json.loads(command("list", "recipes", "--json").out)]
    found = json.loads(command("list", "recipes", "digits-", "--json").out)
    assert [row["name"] for row in found] == [name for name in names if "digits-" in name]
    assert 0 < len(found) < len(names)


def test_show_tells_the_plan_and_the_next_command(command: Command) -> None:
    outcome = command("show", "digits-er")
    assert "5 of 2 classes" in outcome.out
    assert "after task 1 to 5: 20 per class of 3,072 bytes" in outcome.out
    assert outcome.err == "next: remnant run digits-er\n"


def test_a_suggested_command_can_be_pasted_into_a_shell(command: Command) -> None:
    words = ["digits-er", "--set", 'memory.codec={"name": "raw"}', "--data-root", "my data"]
    outcome = command("show", *words)
    suggested = outcome.err.removeprefix("next: ").replace("\n", " ").rstrip()
    assert shlex.split(suggested) == ["remnant", "run", *words]


def test_show_tells_hours_where_it_is_asked_to_measure(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remnant.cli.info_commands._MEASURING_SECONDS", 0.1)
    assert "idle core" not in command("show", "digits-er").out
    assert "on one idle core of this machine" in command("show", "digits-er", "--hours").out
    plan = json.loads(command("show", "digits-er", "--hours", "--json").out)
    assert 0 < plan["hours"] < 100


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ((), {"quality      50"}),
        (("memory.budget=1.5KiB/class",), {"quality      20"}),
        (("memory.codec=raw",), set[str]()),
    ],
)
def test_show_tells_what_auto_comes_to(
    command: Command, changes: tuple[str, ...], expected: set[str]
) -> None:
    shown = command("show", "cifar100-mini-bimae", *(f"--set={one}" for one in changes)).out
    assert {line.split(",")[0] for line in shown.splitlines() if "by the rule" in line} == expected


# --------------------------------------------------------------------------------------------- runs


def test_a_run_logs_a_line_per_epoch_and_ends_in_a_table(command: Command, tmp_path: Path) -> None:
    outcome = command("run", "digits-er", *SETTINGS, "--set", "method.first.epochs=2")
    folder = Path("runs/digits-er")
    assert outcome.code == 0, outcome.err
    lines = [line for line in outcome.err.splitlines() if line.startswith("task ")]
    assert [line.split("  ")[:2] for line in lines] == [
        ["task 1/2 train", "epoch 1/2"],
        ["task 1/2 train", "epoch 2/2"],
        ["task 2/2 train", "epoch 1/2"],
        ["task 2/2 train", "epoch 2/2"],
    ]
    pattern = r"classify \d+\.\d{3}  [\d,]+ images/s  \d+ s left$"
    assert all(re.search(pattern, line) for line in lines)
    result = json.loads((folder / "result.json").read_text())
    assert f"{result['last_accuracy']:.1f} %" in outcome.out
    assert f"report: {folder}/report.html" in outcome.out
    assert outcome.err.splitlines()[-1] == f"next: remnant report {folder}"
    again = command("resume", folder)
    assert "runs/digits-er is finished" in again.sentence
    table = command("report", folder, "--format", "markdown")
    assert f"{result['average_accuracy']:.2f}" in table.out
    assert command("report", folder).out == f"{folder}/report.html\n"
    folder.rename("runs/another one")
    last = command("run", "digits-er", *SETTINGS, "--out", "runs/second").err.splitlines()[-1]
    assert last == "next: remnant report runs/second 'runs/another one'"  # to be pasted


@pytest.mark.parametrize("precision", ["bf16-mixed", "32-true"])
def test_the_precision_that_was_measured_is_told_and_kept(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    monkeypatch.setattr(devices, "fastest_precision", lambda: (precision, 1.5))
    folder = tmp_path / "run"
    outcome = command("run", "digits-er", "--precision", "fastest", "--out", folder, *SETTINGS)
    assert f"precision {precision}: in bf16 a training step is 1.5 times as fast" in outcome.err
    kept = json.loads((folder / "config.json").read_text())
    assert kept["training"]["precision"] == precision
    used = json.loads((folder / "environment.json").read_text())
    assert used["acceleration"]["precision"] == precision


def test_every_process_of_a_launcher_is_told_a_precision(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launchers, "find_launch", lambda: object())
    line = "run digits-er --precision fastest"
    assert "Measure it once without a launcher" in command(*line.split()).sentence


def test_a_finished_config_can_be_run_again(command: Command, stopped: Path) -> None:
    config = json.loads((stopped / "config.json").read_text())
    shown = json.loads(command("show", stopped / "config.json", "--json").out)
    assert shown["config"] == config


def test_resume_finishes_a_stopped_run(command: Command, stopped: Path) -> None:
    outcome = command("resume", stopped)
    assert outcome.code == 0, outcome.err
    assert json.loads((stopped / "result.json").read_text())["finished"] is True


def test_an_interrupt_says_how_to_go_on(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupt(_: object, folder: Path, *__: object, **___: object) -> None:
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr("remnant.cli.run_commands._run_one", interrupt)
    outcome = command("run", "digits-er", "--out", "here")
    assert outcome.code == 130
    assert "remnant resume here" in outcome.err


def test_a_folder_of_images_is_run_by_a_recipe(command: Command, tmp_path: Path) -> None:
    pictures = write_pictures(tmp_path / "mine", {"ant": 8, "bee": 8, "cat": 8, "dog": 8})
    settings = ("--set", "method.first.epochs=1", "--set", "training.threads=1")
    outcome = command(
        "run", "folder-er", "--data-root", pictures, *settings, "--set", "data.image_size=8"
    )
    assert outcome.code == 0, outcome.err
    result = json.loads((tmp_path / "runs" / "folder-er" / "result.json").read_text())
    assert result["class_names"] == ["ant", "bee", "cat", "dog"]
    assert result["task_sizes"] == [2, 2]
