"""Two processes for real, on gloo: the same memory, the same samples and the same losses as one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks.kills import differences
from remnant.files import write_json
from tests.support.command_line import TINY
from tests.support.pixel_method import schedule

SCRIPT = Path(__file__).parent / "support" / "pixel_run.py"


def write_config(path: Path, devices: int) -> Path:
    first = schedule(2, 8).model_dump(mode="json")
    # Batches of one leave a process without rows.
    later = schedule(1, 1, lr=0.0001).model_dump(mode="json")
    config = {
        "data": {"dataset": "digits", "images_per_class": 9, "image_size": 8},
        "stream": {"num_classes": 4, "num_tasks": 2},
        "augment": {"train": "crop-flip", "padding": 1},
        "memory": {"budget": "3images/class"},
        "method": {"name": "pixels", "first": first, "later": later},
        "training": {
            "accelerator": "cpu",
            "devices": devices,
            "threads": 1,
            "log_every_steps": 1,
            "checkpoint_every_steps": 3,
        },
    }
    write_json(path, config)
    return path


def start(arguments: list[str], **environment: str) -> subprocess.Popen[str]:
    # A process group of its own, so that nothing the test starts can outlive it.
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], timeout: float = 200) -> str:
    try:
        _, errors = process.communicate(timeout=timeout)
    finally:
        _end_group(process)
    return errors


def _end_group(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def run(folder: Path, devices: int) -> Path:
    folder.mkdir()
    config = write_config(folder / "config.json", devices)
    process = start(["run", str(config), str(folder / "run")])
    errors = finish(process)
    assert process.returncode == 0, errors
    return folder / "run"


def losses(folder: Path) -> list[float]:
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [event["loss"] for event in map(json.loads, lines) if event["event"] == "step"]


def sampled_ids(folder: Path) -> list[list[int]]:
    """The ids of every step of the run, the first process's rows first."""
    by_process: list[list[dict[str, Any]]] = []
    for path in sorted(folder.parent.glob("ids-*.jsonl")):
        by_process.append([json.loads(line) for line in path.read_text().splitlines()])
    rows: dict[tuple[int, int], list[int]] = defaultdict(list)
    for lines in by_process:
        task, last = 0, -1
        for line in lines:
            task, last = task + (line["step"] <= last), line["step"]
            rows[task, last] += line["ids"]
    return [rows[place] for place in sorted(rows)]


def digest(folder: Path) -> str:
    return json.loads((folder / "result.json").read_text())["memory"]["digest"]


def test_two_processes_sample_learn_and_remember_as_one(tmp_path: Path) -> None:
    one, two = run(tmp_path / "one", 1), run(tmp_path / "two", 2)
    assert len(list(two.parent.glob("ids-*.jsonl"))) == 2
    assert sampled_ids(two) == sampled_ids(one)
    assert losses(two) == pytest.approx(losses(one), abs=1e-4)
    assert digest(two) == digest(one)
    flops = [json.loads((run / "result.json").read_text())["train_flops"] for run in (one, two)]
    assert flops[0] == flops[1] > 0


def children_of(process_id: int) -> list[int]:
    path = Path(f"/proc/{process_id}/task/{process_id}/children")
    return [int(number) for number in path.read_text().split()]


def is_alive(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_for(condition: Any, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the awaited did not happen"
        time.sleep(0.05)


def test_a_loss_that_is_not_finite_in_one_process_stops_both_with_one_sentence(
    tmp_path: Path,
) -> None:
    config = write_config(tmp_path / "config.json", 2)
    process = start(["run", str(config), str(tmp_path / "run")], PIXELS_BREAK_AT="3")
    errors = finish(process)
    assert process.returncode == 2, errors
    assert "'classify' became inf in task 1, phase 'train', step 4" in errors
    assert "Traceback" not in errors


def test_killing_the_first_process_leaves_no_other_behind(tmp_path: Path) -> None:
    config = write_config(tmp_path / "config.json", 2)
    process = start(["run", str(config), str(tmp_path / "run")], PIXELS_SLEEP="60")
    try:
        wait_for(lambda: (tmp_path / "ids-1.jsonl").exists() or process.poll() is not None)
        (child,) = children_of(process.pid)
        process.kill()
        process.wait()
        wait_for(lambda: not is_alive(child), 30)
    finally:
        finish(process)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["first", "second"])
def test_a_run_of_two_resumes_exactly_after_either_is_killed(tmp_path: Path, victim: str) -> None:
    unbroken = run(tmp_path / "unbroken", 2)
    broken = tmp_path / "broken" / "run"
    broken.parent.mkdir()
    config = write_config(broken.parent / "config.json", 2)
    process = start(["run", str(config), str(broken)], PIXELS_SLEEP="0.2")
    try:
        wait_for(lambda: len(list((broken / "checkpoint").glob("task-000-phase-0-step-*"))) > 0)
        (child,) = children_of(process.pid)
        os.kill(process.pid if victim == "first" else child, signal.SIGKILL)
        process.wait(timeout=120)
        wait_for(lambda: not is_alive(child), 60)
    finally:
        errors = finish(process)
    if victim == "second":
        assert process.returncode == 2, errors
        assert "another process of this run has ended. Continue the run with" in errors
        assert f"remnant resume {broken}." in errors
    assert "Traceback" not in errors
    resumed = start(["resume", str(broken)])
    errors = finish(resumed)
    assert resumed.returncode == 0, errors
    assert differences(unbroken, broken) == []


# --------------------------------------------------------------------------------------- torchrun


def torchrun(*arguments: str, folder: Path) -> tuple[int, str]:
    """The exit code of a run under torchrun with two processes, and what it printed."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    settings = [f"--set={key}={value}" for key, value in TINY.items()]
    command = ["-m", "remnant", "run", "digits-bimae", *settings, *arguments]
    process = subprocess.Popen(
        [*launcher, "--nproc-per-node", "2", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=280)
    finally:
        _end_group(process)
    return process.returncode, printed


@pytest.mark.slow
def test_torchrun_alone_runs_as_many_processes_as_it_starts(tmp_path: Path) -> None:
    code, printed = torchrun("--out", "run", folder=tmp_path)
    assert code == 0, printed
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["training"]["devices"], config["training"]["num_nodes"]) == (2, 1)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["finished"] is True
    assert printed.count("report: run/report.html") == 1


@pytest.mark.slow
def test_torchrun_with_another_number_of_processes_ends_in_a_sentence(tmp_path: Path) -> None:
    code, printed = torchrun("--out", "run", "--devices", "3", "--nodes", "1", folder=tmp_path)
    assert code != 0
    assert "it started 2, not 3. Leave out --devices and --nodes" in printed
