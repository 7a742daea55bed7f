"""What a user sees: answers, and one sentence with exit code 2 for what cannot be done."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import remnant
from remnant.archives import read_archive, write_archive
from remnant.training import devices, launchers
from tests.support.command_line import SETTINGS, Command, largest_file, stopped_run, write_pictures

CIFAR_TRAIN_BYTES = 50_000 * 3_074


@pytest.fixture(scope="session")
def kept_stopped_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stopped_run(tmp_path_factory.mktemp("stopped") / "run")


@pytest.fixture
def stopped(kept_stopped_run: Path, tmp_path: Path) -> Path:
    """A run folder that was left in the second of two tasks."""
    return shutil.copytree(kept_stopped_run, tmp_path / "stopped")


def in_a_new_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "remnant", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


# ----------------------------------------------------------------------------------------- answers


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


def test_a_failure_in_a_process_of_its_own_is_one_line_and_code_2() -> None:
    done = in_a_new_process("show", "digits-err")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "Did you mean digits-er?" in done.stderr


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


# --------------------------------------------------------------------------------- wrong arguments

WRONG_ARGUMENTS = {
    "nonsense": 'Unknown command "nonsense"',
    "run": "give at least one recipe",
    "run digits-er digits-err": "not a recipe. Did you mean digits-er?",
    "run digits-er digits-er": "got digits-er twice",
    "run digits-er --grid seed": "--grid must be key=value,value; got 'seed'",
    "run digits-er --grid seed=1,1": "got seed-1 twice",
    "run digits-er --grid sead=1,2": "sead is not a setting. Did you mean seed?",
    "run folder-er": "images is not a folder. Check the path, or give another with --data-root",
    "run digits-er --frob 1": "Unknown option: --frob",
    "run digits-er --seed one": "Invalid value for --seed",
    "run digits-er --seed 1 --seeds 1,2": "--seed for one run or --seeds for several",
    "run digits-er --seeds a,b": "--seeds takes whole numbers, as in 1,2,3; got 'a'",
    "run digits-er --seeds 1,,2": "--seeds takes values with commas between them; got '1,,2'",
    "run digits-er --seeds 1,1": "--seeds takes each value once; got 1 twice",
    "run digits-er --orders nope": "stream.order must be one of default, identity",
    "run digits-er --orders icarl": "is an order of 100 classes; the data set has 10",
    "run digits-er --devices 0": "training.devices must be at least 1; got 0.",
    "run digits-er --accelerator gpu": "got gpu. Did you mean cpu?",
    "run digits-er --precision x": "training.precision must be one of auto, 32-true, bf16-mixed",
    "run cifar100-mini-err": "not a recipe. Did you mean cifar100-mini-er?",
    "run other.json": "other.json does not exist",
    "show qqq": "'qqq' is not a recipe. See remnant list recipes",
    "list nonsense": "Choose from",
    "list recipes nonsense": "none of the recipes has 'nonsense' in its name.",
    "report": "give at least one run folder",
    "report nowhere": "nowhere must be a run folder",
    "resume nowhere": "nowhere holds no config.json",
    "data check cifar": "Did you mean cifar10?",
    "data check cifar100": "cifar-100-binary/train.bin, which does not exist",
    "data check folder": "needs its path",
    "data get imagenet-full": "may not be downloaded without an account",
    "plan --dataset digit --budget 1KiB": "got 'digit'. Did you mean digits?",
    "plan --dataset cifar100 --budget 60KiB/class": "remnant data get cifar100",
    "plan --dataset folder --budget 60KiB/class": "needs data.path",
    "plan --dataset digits --budget lots": "memory.budget must be a positive amount of memory",
    "plan --dataset digits": "--budget",
    "plan --dataset digits --budget 1KiB --sample 0": "a sample must have at least 1 image; got 0.",
    "plan --dataset digits --budget 1KiB --html .": "--html must be a file",
    "plan --dataset digits --budget 1KiB --set method.name=er": "only settings of data, memory",
    "plan --dataset digits --budget 1KiB --set memory.codec.patch_size=5": "is not a setting",
    "plan --dataset digits --budget 1KiB --set memory.codec=pathces": "must be one of raw, patches",
}


@pytest.mark.parametrize(("line", "expected"), WRONG_ARGUMENTS.items())
def test_a_wrong_command_line_ends_in_a_sentence_and_no_file(
    command: Command, tmp_path: Path, line: str, expected: str
) -> None:
    assert expected in command(*line.split()).sentence
    assert list(tmp_path.iterdir()) == []


WRONG_SETTINGS = {
    "memory.bugdet=1KiB": "memory.bugdet is not a setting. Did you mean memory.budget?",
    "memroy.budget=1KiB": "memroy.budget is not a setting. Did you mean memory.budget?",
    "method.first.epochs": "--set must be key=value; got 'method.first.epochs'.",
    "=3": "--set must be key=value; got '=3'.",
    "method.first.epochs=0": "method.first.epochs must be at least 1; got 0.",
    "method.first.epochs=two": "method.first.epochs must be a whole number; got two.",
    "method.first.epochs=1.5": "method.first.epochs must be a whole number; got 1.5.",
    "method.first.optimizer.lr=0": "method.first.optimizer.lr must be greater than 0.0; got 0.",
    "method.first.optimizer.lr=NaN": "method.first.optimizer.lr must be a finite number; got NaN.",
    "method.first.optimizer.momentum=1": "momentum must be less than 1.0; got 1.",
    "method.first.optimizer.gamma=2": "gamma must be at most 1.0; got 2.",
    "method.first.optimizer.name=sdg": "got sdg. Did you mean sgd?",
    "method.name=finetun": "method.name must be one of",
    "method.name=joint": "For joint choose another recipe",
    "method=3": "method must be a group of settings",
    "seed=true": "seed must be a number; got true.",
    "data.dataset=digit": "got 'digit'. Did you mean digits?",
    "data.dataset=folder": "needs data.path, the folder that holds the images.",
    "data.images_per_class=1000": 'class "0" has 151 training images',
    "stream.num_tasks=3": "The nearest that works is 2",
    "memory.codec=pathces": "must be one of raw, patches",
    "memory.codec.mask_ratio=0.5": "memory.codec.mask_ratio is not a setting. There are memory.cod",
    "memory.budget=lots": "memory.budget must be a positive amount of memory; got 'lots'",
    "memory.budget=1KiB/class": 'at least "3072B/class"',
    "memory.budget=10KiB": 'at least "30720B"',
    "memory=null": "er keeps exemplars, so it needs memory.budget.",
    "training.accelerator=cuda": "needs a device that torch cannot find",
}


@pytest.mark.parametrize(("assignment", "expected"), WRONG_SETTINGS.items())
def test_a_wrong_setting_ends_in_a_sentence_and_no_folder(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    assignment: str,
    expected: str,
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert expected in command("run", "digits-er", "--set", assignment).sentence
    assert list(tmp_path.iterdir()) == []


def test_several_runs_that_cannot_start_leave_no_folder(command: Command, tmp_path: Path) -> None:
    arguments = ("cifar100-mini-er", "--seeds", "1,2", "--out", "runs/several")
    assert "cifar100 is expected at" in command("run", *arguments).sentence
    assert list(tmp_path.iterdir()) == []


# -------------------------------------------------------------------------------------- wrong data


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


# ------------------------------------------------------------------------------------ wrong folders


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
