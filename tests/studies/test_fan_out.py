"""Runs of a study as real processes: side by side, resumed after a kill, failing alone."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from remnant import cores
from remnant.config import load_config, override
from remnant.cores import usable_cores
from remnant.files import only_writer, write_json
from remnant.runs.run_folder import CONFIG, is_finished, read_result
from remnant.studies import fan_out
from remnant.studies.fan_out import Job, carry_out
from remnant.studies.run_process import command_of
from remnant.studies.study_runs import in_precision, is_same
from tests.support.small_study import Told, ended_at_once, tiny_run


class KillsOnce(Told):
    """Kills the first run as soon as it has a checkpoint."""

    done = False

    def waiting(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if not self.done and any((job.folder / "checkpoint").glob("task-001*")):
                assert job.process is not None
                os.kill(job.process.pid, signal.SIGKILL)
                self.done = True


@pytest.mark.slow
def test_runs_go_side_by_side_and_a_failing_one_stops_no_other(tmp_path: Path) -> None:
    bad = tiny_run("bad")
    # Nothing before the run itself can know that these files are missing.
    bad = replace(bad, config=override(bad.config, {"data.dataset": "cifar100"}))
    runs = [tiny_run("one"), bad, tiny_run("two", seed=1)]
    told = Told()
    failures = carry_out(runs, tmp_path, 2, progress=told, data_root=tmp_path / "nothing")
    assert [failure.name for failure in failures] == ["bad"]
    assert "remnant data get cifar100" in failures[0].log.read_text()
    assert is_finished(tmp_path / "one")
    assert is_finished(tmp_path / "two")
    assert told.most_at_once == 2
    again = Told()
    assert carry_out([runs[0], runs[2]], tmp_path, 2, progress=again) == []
    assert again.events == []


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_as_if_nothing_had_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It must be seen between its first checkpoint and its end, on a fast machine too.
    monkeypatch.setattr(fan_out, "POLL_SECONDS", 0.005)
    longer = {"method__first__epochs": 12}
    told = KillsOnce()
    assert carry_out([tiny_run("killed", **longer)], tmp_path / "a", 1, progress=told) == []
    assert told.done
    assert told.events == [("started", "killed"), ("started", "killed"), ("finished", "killed")]
    assert carry_out([tiny_run("whole", **longer)], tmp_path / "b", 1, progress=Told()) == []
    killed, whole = (read_result(tmp_path / name) for name in ("a/killed", "b/whole"))
    assert killed.accuracy_matrix == whole.accuracy_matrix
    assert killed.memory == whole.memory


_PARENT = """
import os, subprocess, sys, time
from remnant.studies.run_process import end_with
child = subprocess.Popen(["sleep", "60"], start_new_session=True, preexec_fn=end_with(os.getpid()))
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can do it")
def test_a_study_that_is_killed_takes_its_runs_with_it() -> None:
    command = [sys.executable, "-c", _PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert _is_alive(child)
        parent.kill()
    deadline = time.monotonic() + 30
    while _is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _is_alive(child)


def _is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # ended, and nobody has asked how


@pytest.mark.parametrize(
    ("visible", "expected"),
    [("2,3", ["2", "3", "2"]), ("GPU-a, GPU-b", ["GPU-a", "GPU-b", "GPU-a"]), (None, list("010"))],
)
def test_runs_share_the_gpus_and_cores_that_were_left_to_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, expected: list[str]
) -> None:
    given: list[dict[str, str]] = []
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(12)), raising=False)
    monkeypatch.setattr(cores, "_OMP_THREADS", "")
    monkeypatch.setattr(subprocess, "Popen", ended_at_once(given))
    carry_out([tiny_run(name) for name in "abc"], tmp_path, 3, progress=Told())
    assert [environment["CUDA_VISIBLE_DEVICES"] for environment in given] == expected
    assert {environment["OMP_NUM_THREADS"] for environment in given} == {"4"}


@pytest.mark.parametrize(
    ("allowed", "threads"),
    [("", 4), ("2", 2), ("2,1", 2), (" 3", 3), ("64", 4), ("0", 4), ("all", 4), ("²", 4)],
)
def test_omp_num_threads_limits_the_threads_of_each_process(
    monkeypatch: pytest.MonkeyPatch, allowed: str, threads: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(12)), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", allowed)
    try:
        assert importlib.reload(cores).threads_each(3) == threads
    finally:
        monkeypatch.undo()
        importlib.reload(cores)


def test_without_affinity_all_cores_are_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert usable_cores() == os.cpu_count()


def test_a_run_goes_on_with_data_that_were_moved(tmp_path: Path) -> None:
    run, folder = tiny_run("moved"), tmp_path / "moved"
    folder.mkdir()
    write_json(folder / CONFIG, run.config.model_dump(mode="json"))
    assert command_of(run, folder, 7, tmp_path / "elsewhere") == ["resume", str(folder)]
    config = load_config(folder / CONFIG)
    assert config.data.root == str(tmp_path / "elsewhere")
    assert config.training == run.config.training  # threads are part of its numbers
    assert command_of(run, folder, 7, None) == ["resume", str(folder)]
    assert load_config(folder / CONFIG) == config


def test_the_config_of_a_run_that_goes_on_elsewhere_is_not_replaced(tmp_path: Path) -> None:
    run, folder = tiny_run("busy"), tmp_path / "busy"
    folder.mkdir()
    write_json(folder / CONFIG, run.config.model_dump(mode="json"))
    with only_writer(folder / CONFIG):
        assert command_of(run, folder, 1, tmp_path / "elsewhere") == ["resume", str(folder)]
    assert load_config(folder / CONFIG) == run.config


def test_a_hang_up_that_is_ignored_stays_ignored() -> None:
    """As `nohup` has it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with fan_out._ending_all():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is fan_out._interrupt
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_new_run_takes_the_precision_that_is_asked_for_and_a_started_one_keeps_its_own(
    tmp_path: Path,
) -> None:
    asked = in_precision(tiny_run("new"), "bf16-mixed")
    assert is_same(asked.config, tiny_run("new").config)
    _, config, *_ = command_of(asked, tmp_path / "new", 1, None)
    assert load_config(Path(config)).training.precision == "bf16-mixed"
    (tmp_path / "old").mkdir()
    write_json(tmp_path / "old" / CONFIG, tiny_run("old").config.model_dump(mode="json"))
    command_of(in_precision(tiny_run("old"), "bf16-mixed"), tmp_path / "old", 1, None)
    assert load_config(tmp_path / "old" / CONFIG).training.precision == "auto"
