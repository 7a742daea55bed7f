"""Two processes for real, on gloo: the same memory, the same samples and the same losses as one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.kills import differences
from tests.support.command_line import TINY
from tests.support.pixel_processes import (
    digest,
    end_group,
    finish,
    losses,
    run,
    sampled_ids,
    start,
    wait_for,
    write_config,
)


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
    command = ["-m", "remnant", "run", "digits-er", *settings, *arguments]
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
        end_group(process)
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
