"""Runs of a study as jobs: real ones on this machine, and Slurm's commands as scripts."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from remnant.config import override
from remnant.cores import usable_cores
from remnant.errors import InputError
from remnant.runs.run_folder import is_finished, read_result
from remnant.studies import cluster, job_book, run_job
from remnant.studies.cluster import ClusterOptions, carry_out_locally, check_cluster, submit
from remnant.studies.fan_out import Job, carry_out
from tests.support.command_line import Command
from tests.support.small_study import Told, ended_at_once, tiny_run

HERE = ClusterOptions("local", gpus_per_run=0)
SLURM = ClusterOptions("slurm", gpus_per_run=2, hours=3, partition="big", slurm={"qos": "low"})


# ------------------------------------------------------------------------- jobs on this machine


class PreemptsOnce(Told):
    """Sends the first job what Slurm sends before it takes a node away."""

    done = False

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._jobs = folder / "jobs" / "jobs.json"

    def waiting(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if not self.done and any((job.folder / "checkpoint").glob("task-001*")):
                controller = json.loads(self._jobs.read_bytes())["jobs"][job.run.name]["id"]
                os.kill(_only_child(int(controller)), signal.SIGUSR2)
                self.done = True


def _only_child(process: int) -> int:
    (child,) = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return int(child)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_failing_run_stops_no_other_job_and_what_is_done_gets_no_second_job(
    tmp_path: Path,
) -> None:
    bad = tiny_run("bad")
    # Nothing before the run itself can know that these files are missing.
    bad = replace(bad, config=override(bad.config, {"data.dataset": "cifar100"}))
    runs = [bad, tiny_run("good")]
    told, place = Told(), tmp_path / "runs"
    nowhere = tmp_path / "nothing"
    failures = carry_out_locally(runs, place, HERE, 1, progress=told, data_root=nowhere)
    assert [failure.name for failure in failures] == ["bad"]
    assert "remnant data get cifar100" in failures[0].log.read_text()
    assert is_finished(place / "good")
    assert told.most_at_once == 1
    again = Told()
    assert carry_out_locally([runs[1]], place, HERE, 1, progress=again) == []
    assert again.events == []


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_preempted_job_is_queued_again_and_ends_as_if_nothing_had_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It must be seen between its first checkpoint and its end, on a fast machine too.
    monkeypatch.setattr(cluster, "POLL_SECONDS", 0.005)
    longer = {"method__first__epochs": 12}
    told = PreemptsOnce(tmp_path / "a")
    runs = [tiny_run("preempted", **longer)]
    threads = usable_cores()  # per run, so that each has one thread
    assert carry_out_locally(runs, tmp_path / "a" / "runs", HERE, threads, progress=told) == []
    assert told.done
    assert told.events == [("started", "preempted"), ("finished", "preempted")]
    log = "".join(path.read_text() for path in (tmp_path / "a" / "jobs").glob("*_log.*"))
    assert "Requeued job" in log
    assert carry_out([tiny_run("whole", **longer)], tmp_path / "b", threads, progress=Told()) == []
    preempted, whole = tmp_path / "a" / "runs" / "preempted", tmp_path / "b" / "whole"
    assert read_result(preempted).accuracy_matrix == read_result(whole).accuracy_matrix
    assert read_result(preempted).memory == read_result(whole).memory
    for name in ("memory.safetensors", "features.safetensors"):
        assert (preempted / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.parametrize(
    ("visible", "expected"),
    [("4,5,6,7", [("4", "5"), ("6", "7")]), ("GPU-a,GPU-b", [("GPU-a", "GPU-b")] * 2)],
)
def test_local_jobs_get_gpus_of_those_that_were_left_to_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str, expected: list[tuple[str, ...]]
) -> None:
    given: list[tuple[str, ...]] = []

    class Ended:
        job_id = "1"

        def submit(self, job: run_job.RunJob) -> Ended:
            given.append(job.gpus)
            return self

        def done(self) -> bool:
            return True

        def cancel(self) -> None: ...

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr("torch.cuda.device_count", lambda: visible.count(",") + 1)
    monkeypatch.setattr(cluster, "_local_executor", lambda *_: Ended())
    runs = [tiny_run("one"), tiny_run("two")]
    carry_out_locally(runs, tmp_path / "runs", replace(HERE, gpus_per_run=2), 2, progress=Told())
    assert given == expected


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_study_becomes_a_page_through_local_jobs(command: Command, tmp_path: Path) -> None:
    asked = ["reproduce", "detail-domain", "--scale", "smoke", "--cluster", "local",
             "--out", tmp_path]  # fmt: skip
    shown = command(*asked)
    assert shown.code == 0, shown.err
    assert "2 runs, 0 done, 2 to do" in shown.err
    assert "Not run yet" not in (tmp_path / "detail-domain-smoke" / "index.html").read_text()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_run_that_fails_as_a_job_makes_the_command_fail(command: Command, tmp_path: Path) -> None:
    # A folder that is in use is found by the run itself.
    (tmp_path / "runs" / "digits-bimae-spatial-smoke").mkdir(parents=True)
    (tmp_path / "runs" / "digits-bimae-spatial-smoke" / "mine.txt").touch()
    shown = command("reproduce", "detail-domain", "--scale", "smoke", "--cluster", "local",
                    "--out", tmp_path)  # fmt: skip
    assert shown.code == 1, shown.err
    assert "failed    digits-bimae-spatial-smoke" in shown.err
    assert "finished  digits-bimae-full-smoke" in shown.err
    assert (tmp_path / "detail-domain-smoke" / "index.html").exists()


# ---------------------------------------------------------------------------------------- Slurm


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with Slurm's commands: what sbatch was given, and states for sacct to tell."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    scripts = {
        "srun": "exit 0",
        "sbatch": f'cat "$1" >> {folder}/given; echo Submitted batch job $(cat {folder}/next)',
        "sacct": f"cat {folder}/states",
    }
    for name, body in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    (folder / "next").write_text("70")
    tell(folder, {})
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def tell(slurm: Path, states: dict[str, str]) -> None:
    lines = [f"{job}|{state}|node" for job, state in states.items()]
    (slurm / "states").write_text("\n".join(["JobID|State|NodeList", *lines]) + "\n")


def test_runs_become_one_array_with_what_was_asked_for(slurm: Path, tmp_path: Path) -> None:
    told = submit([tiny_run("one"), tiny_run("two")], tmp_path / "runs", SLURM, None)
    assert told.submitted == {"one": "70_0", "two": "70_1"}
    assert told.pending == {}
    given = (slurm / "given").read_text()
    for option in ("array=0-1%2", "gpus-per-node=2", "time=180", "partition=big", "qos=low",
                   "cpus-per-task=16", "nodes=1"):  # fmt: skip
        assert f"#SBATCH --{option}\n" in given


def test_no_run_has_two_jobs_and_ended_ones_get_another(slurm: Path, tmp_path: Path) -> None:
    runs = [tiny_run(name) for name in ("waits", "runs", "failed", "unknown")]
    submit(runs, tmp_path / "runs", SLURM, None)
    tell(slurm, {"70_0": "PENDING", "70_1": "RUNNING", "70_2": "CANCELLED by 1000"})
    (slurm / "next").write_text("71")
    watcher = job_book.load_submitit().SlurmJob.watcher
    watcher.clear()
    told = submit(runs, tmp_path / "runs", SLURM, None)
    assert told.submitted == {"failed": "71"}
    assert told.pending == {
        "waits": "70_0, PENDING", "runs": "70_1, RUNNING", "unknown": "70_3, UNKNOWN",
    }  # fmt: skip
    tell(slurm, {"70_0": "COMPLETED", "70_1": "RUNNING", "70_3": "TIMEOUT", "71": "PENDING"})
    (slurm / "next").write_text("72")
    watcher.clear()
    told = submit(runs, tmp_path / "runs", SLURM, None)
    assert told.submitted == {"waits": "72_0", "unknown": "72_1"}


def test_a_job_trains_on_its_gpus_or_not_at_all(slurm: Path, tmp_path: Path) -> None:
    submit([tiny_run("one")], tmp_path / "runs", SLURM, Path("data"))
    job = job_book.load_submitit().SlurmJob(folder=tmp_path / "jobs", job_id="70")
    training = job.submission().function.run.config.training
    assert (training.accelerator, training.devices) == ("cuda", 2)
    assert job.submission().function.data_root.is_absolute()


def test_a_run_does_not_see_the_one_task_of_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, str]] = []
    monkeypatch.setattr(run_job.subprocess, "Popen", ended_at_once(given))
    monkeypatch.setenv("SLURM_NTASKS", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    for gpus in ((), ("1", "2")):
        with pytest.raises(RuntimeError, match="one ended with code 0; see"):
            run_job.RunJob(tiny_run("one"), tmp_path / "one", 1, None, gpus)()
    assert all("SLURM_NTASKS" not in environment for environment in given)
    assert [environment["CUDA_VISIBLE_DEVICES"] for environment in given] == ["3", "1,2"]


def test_a_submission_is_told_run_by_run(command: Command, slurm: Path, tmp_path: Path) -> None:
    shown = command("reproduce", "detail-domain", "--scale", "smoke", "--cluster", "slurm",
                    "--set-slurm", "account=vision", "--out", tmp_path)  # fmt: skip
    assert shown.code == 0, shown.err
    assert "submitted digits-bimae-full-smoke as job 70_1" in shown.out
    assert f"remnant study {tmp_path / 'detail-domain-smoke'}" in shown.out
    assert "#SBATCH --account=vision\n" in (slurm / "given").read_text()


def test_a_setting_that_slurm_lacks_is_refused_with_the_nearest(
    slurm: Path, tmp_path: Path
) -> None:
    wrong = replace(SLURM, slurm={"cpus_per_tasks": 4})
    with pytest.raises(InputError, match="Did you mean cpus_per_task"):
        submit([tiny_run("one")], tmp_path / "runs", wrong, None)
    assert not (slurm / "given").exists()


def test_what_sbatch_says_is_passed_on(slurm: Path, tmp_path: Path) -> None:
    (slurm / "sbatch").write_text("#!/bin/sh\necho sbatch: invalid partition: big >&2\nexit 1\n")
    with pytest.raises(InputError, match=r"sbatch refused the jobs: .*invalid partition: big"):
        submit([tiny_run("one")], tmp_path / "runs", SLURM, None)
    assert not (tmp_path / "jobs" / "jobs.json").exists()


def test_a_job_over_several_nodes_is_refused() -> None:
    with pytest.raises(InputError, match="one node"):
        check_cluster(replace(SLURM, slurm={"nodes": 2}))


def test_a_damaged_list_of_jobs_is_named(slurm: Path, tmp_path: Path) -> None:
    submit([tiny_run("one")], tmp_path / "runs", SLURM, None)
    (tmp_path / "jobs" / "jobs.json").write_text('{"jobs": {"one": 3}}')
    with pytest.raises(InputError, match=r"jobs\.json must hold"):
        submit([tiny_run("one")], tmp_path / "runs", SLURM, None)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--cluster", "slurm"], "needs Slurm, but sbatch was not found"),
        (["--partition", "big"], "--partition needs --cluster slurm."),
        (["--cluster", "local", "--set-slurm", "qos=low"], "--set-slurm needs --cluster slurm."),
        (["--hours", "3"], "--hours needs --cluster slurm or local."),
        (["--cluster", "local", "--hours", "0"], "--hours must be above 0"),
        (["--cluster", "local", "--gpus-per-run", "-1"], "--gpus-per-run must be 0 or more"),
        (["--cluster", "local", "--gpus-per-run", "99"], "needs as many GPUs here"),
        (["--cluster", "slurm", "--set-slurm", "qos"], "--set-slurm must be key=value"),
    ],
)
def test_what_no_cluster_can_do_is_one_sentence(
    command: Command, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    asked = ["detail-domain", "--scale", "smoke", "--out", tmp_path / "out", *arguments]
    assert sentence in command("reproduce", *asked).sentence
    assert not (tmp_path / "out").exists()


def test_without_submitit_one_sentence_says_what_to_install(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    asked = ["detail-domain", "--scale", "smoke", "--out", tmp_path / "out"]
    said = command("reproduce", *asked, "--cluster", "local").sentence
    assert 'pip install -c constraints.txt -e ".[cluster]"' in said
    assert not (tmp_path / "out").exists()
