"""Arguments and settings that cannot be: one sentence with exit code 2, and nothing is written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import Command


def in_a_new_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "remnant", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


def test_a_failure_in_a_process_of_its_own_is_one_line_and_code_2() -> None:
    done = in_a_new_process("show", "digits-err")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "Did you mean digits-er?" in done.stderr


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
    "run digits-er --seeds a,b": "--seeds takes whole numbers, as in 0,1,2; got 'a'",
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
    "method.name=[1]": "method.name must be one of",
    "method.first.optimizer.nesterov=true method.first.optimizer.momentum=0": "nesterov needs a mo",
    "method=er method.name=joint": "method.first must be given.",
    "method.first=null method.later.epochs=3": "method.first must be a group of settings",
    f"seed={'9' * 5000}": "seed: Unable to parse",
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
    settings = [word for one in assignment.split() for word in ("--set", one)]
    assert expected in command("run", "digits-er", *settings).sentence
    assert list(tmp_path.iterdir()) == []


def test_several_runs_that_cannot_start_leave_no_folder(command: Command, tmp_path: Path) -> None:
    arguments = ("cifar100-mini-er", "--seeds", "1,2", "--out", "runs/several")
    assert "cifar100 is expected at" in command("run", *arguments).sentence
    assert list(tmp_path.iterdir()) == []
