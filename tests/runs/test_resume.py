"""Runs that were stopped or killed go on, and no bit of their results differs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import remnant.runs.experiment as experiment_module
from benchmarks.kills import differences, is_finished, kill_and_resume
from remnant.config import load_config
from remnant.errors import InputError
from remnant.files import write_json
from remnant.recipes import load_recipe
from remnant.runs.environment import as_begun
from remnant.runs.experiment import resume, run
from remnant.training.processes import TrainingConfig
from tests.support.pixel_experiment import Stopped, result_of, stop_at, tiny_config

pytestmark = pytest.mark.usefixtures("pixels")


# ------------------------------------------------------------------------------------ the same bits


@pytest.mark.parametrize(("task", "step"), [(0, 2), (0, 7), (0, 11), (1, 0), (1, 8), (1, 17)])
def test_a_stopped_run_resumes_exactly(
    finished: Path, tmp_path: Path, no_page: None, task: int, step: int
) -> None:
    folder = tmp_path / "run"
    stop_at(folder, task, step)
    torch.manual_seed(99)
    resume(folder)
    assert differences(finished, folder) == []


def test_a_damaged_newest_checkpoint_costs_time_but_no_bit(
    finished: Path, tmp_path: Path, no_page: None
) -> None:
    folder = tmp_path / "run"
    stop_at(folder, 1, 12)
    newest = folder / "checkpoint" / "task-001-phase-0-step-00000010.safetensors"
    newest.write_bytes(newest.read_bytes()[:-5])
    resume(folder)
    assert differences(finished, folder) == []


def test_a_damaged_start_of_a_task_costs_time_but_no_bit(
    finished: Path, tmp_path: Path, no_page: None
) -> None:
    folder = tmp_path / "run"
    stop_at(folder, 1, 12)
    start = folder / "checkpoint" / "task-001.safetensors"
    start.write_bytes(start.read_bytes()[:-5])
    resume(folder)
    assert differences(finished, folder) == []


def test_what_a_kill_after_the_last_task_left_undone_is_done_on_resume(
    finished: Path, tmp_path: Path, no_page: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise Stopped

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(experiment_module, "read_density", stop)
        with pytest.raises(Stopped):
            run(tiny_config(), folder)
    assert result_of(folder)["finished"] is False
    resume(folder)
    assert differences(finished, folder) == []


def test_a_run_goes_on_with_the_threads_that_it_began_with(
    tmp_path: Path, no_page: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, used = tmp_path / "run", []
    stop_at(folder, 0, 7)
    for name, key, value in (("config", "training", None), ("environment", "threads", 2)):
        path = folder / f"{name}.json"
        values = json.loads(path.read_text())
        if key == "training":
            values["training"]["threads"] = value
        else:
            assert values[key] == 1
            values[key] = value
        write_json(path, values)
    monkeypatch.setattr(torch, "set_num_threads", used.append)
    resume(folder)
    assert used[-1] == 2


@pytest.mark.parametrize(("asked", "expected"), [("auto", "bf16-mixed"), ("32-true", "32-true")])
def test_a_run_goes_on_in_the_precision_that_it_began_with(
    tmp_path: Path, asked: Any, expected: str
) -> None:
    recorded = {"threads": "odd", "acceleration": {"precision": "bf16-mixed"}}
    (tmp_path / "environment.json").write_text(json.dumps(recorded))
    training = as_begun(tmp_path, TrainingConfig(precision=asked))
    assert (training.precision, training.threads) == (expected, None)


# --------------------------------------------------------------------------------- what a stop left


def test_a_finished_run_without_its_page_gets_it_on_resume(finished: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished, tmp_path / "run")
    (folder / "report.html").unlink()
    left = folder / "figures" / ".matrix.svg.abc.remnant.tmp"
    left.touch()
    assert resume(folder).finished is True
    assert (folder / "report.html").exists()
    assert not left.exists()
    left.touch()
    with pytest.raises(InputError, match="is finished"):
        resume(folder)
    assert not left.exists()


def test_what_a_power_cut_made_of_a_line_is_removed(tmp_path: Path, no_page: None) -> None:
    folder = tmp_path / "run"
    stop_at(folder, 0, 7)
    events = folder / "events.jsonl"
    content = bytearray(events.read_bytes())
    content[10:30] = bytes(20)
    events.write_bytes(content)
    resume(folder)
    lines = events.read_bytes().splitlines()
    assert all(isinstance(json.loads(line), dict) for line in lines)
    assert json.loads(lines[-1])["event"]


@pytest.mark.parametrize("damage", ["cut", "deleted", "torn line"])
def test_a_log_that_lost_its_end_goes_on_from_its_last_whole_line(
    tmp_path: Path, no_page: None, damage: str
) -> None:
    folder = tmp_path / "run"
    stop_at(folder, 0, 7)
    log = folder / "events.jsonl"
    if damage == "deleted":
        log.unlink()
    elif damage == "cut":
        log.write_bytes(log.read_bytes()[:200])
    else:
        log.write_bytes(log.read_bytes() + b'{"event": "st')
    resume(folder)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert events[-1]["event"] == "task_end"


def test_the_time_of_a_task_includes_what_passed_before_a_stop(
    tmp_path: Path, no_page: None
) -> None:
    folder = tmp_path / "run"
    stop_at(folder, 0, 7, seconds_per_step=0.1)
    resume(folder)
    assert result_of(folder)["seconds_per_task"][0] > 0.5  # five steps before the checkpoint


def test_an_environment_lost_to_an_early_kill_is_written_on_resume(
    tmp_path: Path, no_page: None
) -> None:
    folder = tmp_path / "run"
    write_json(folder / "config.json", tiny_config().model_dump(mode="json"))
    resume(folder)
    assert "torch" in json.loads((folder / "environment.json").read_text())


# --------------------------------------------------------------------------------------- real kills


def er_config(path: Path) -> Path:
    config = load_recipe("digits-er").model_dump(mode="json")
    config["data"] |= {"images_per_class": 8, "image_size": 8}
    config["stream"] = {"num_classes": 4, "num_tasks": 2}
    config["memory"] = {"budget": "3images/class"}
    config["method"]["first"] |= {"epochs": 20, "batch_size": 4}
    config["training"] |= {"threads": 1, "checkpoint_every_steps": 10, "log_every_steps": 1}
    write_json(path, config)
    return path


def kill_when_steps_are_done(arguments: list[str], log: Path, num_lines: int) -> None:
    """Start the program and kill it once its log has grown to so many lines."""
    command = [sys.executable, "-m", "remnant", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        while process.poll() is None:
            if log.exists() and log.read_bytes().count(b"\n") >= num_lines:
                process.kill()
            time.sleep(0.002)


def test_two_kills_change_no_bit(tmp_path: Path, no_page: None) -> None:
    config = er_config(tmp_path / "tiny.json")
    run(load_config(config), tmp_path / "unbroken")
    folder = tmp_path / "broken"
    log = folder / "events.jsonl"
    kill_when_steps_are_done(["run", str(config), "--out", str(folder)], log, 37)
    assert not is_finished(folder)
    kill_when_steps_are_done(["resume", str(folder)], log, 120)
    assert not is_finished(folder)
    resume(folder)
    assert differences(tmp_path / "unbroken", folder) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twenty_kills_at_random_moments_change_no_bit(tmp_path: Path) -> None:
    start = ["digits-er", "--set", "training.threads=1"]
    start += ["--set", "training.checkpoint_every_steps=20"]
    outcome = kill_and_resume(start, tmp_path, num_kills=20, seed=1)
    assert len(outcome.kills) == 20
    assert outcome.differences == []
