"""The runs of a study as jobs of a cluster, through submitit: a Slurm array, or jobs right here.

OUT/jobs/ holds which job has which run (`job_book`), and what submitit writes: scripts and logs.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from remnant.config import override
from remnant.cores import threads_each
from remnant.errors import InputError, nearest
from remnant.files import make_folder
from remnant.runs.run_folder import is_finished
from remnant.studies.fan_out import Failure, Job, Progress
from remnant.studies.job_book import (
    ClusterKind,
    JobBook,
    JobRecord,
    load_submitit,
    only_submitter,
)
from remnant.studies.run_job import RunJob
from remnant.studies.run_process import POLL_SECONDS, log_of
from remnant.studies.study_runs import StudyRun
from remnant.studies.usable_gpus import usable_gpus

JOBS = "jobs"
_MOST_TIMEOUTS = 100  # every one of them is a step forward, so that long runs end
_CPUS_PER_GPU = 8


@dataclass(frozen=True)
class ClusterOptions:
    """What is asked of a cluster for every run."""

    kind: ClusterKind
    gpus_per_run: int
    hours: float = 24.0  # after which a job makes way, and queues again where the run is not done
    partition: str | None = None
    slurm: Mapping[str, Any] = field(default_factory=dict)  # more, by submitit's names

    @property
    def cpus_per_run(self) -> int:
        return int(self.slurm.get("cpus_per_task", _CPUS_PER_GPU * max(1, self.gpus_per_run)))

    def prepared(self, run: StudyRun) -> StudyRun:
        """The run on its GPUs; a node that has none stops it, rather than training for weeks."""
        if not self.gpus_per_run:
            return run
        changes = {
            "training.devices": self.gpus_per_run,
            "training.accelerator": "cuda",
            "data.workers": max(run.config.data.workers, self.cpus_per_run // self.gpus_per_run),
        }
        return replace(run, config=override(run.config, changes))


@dataclass(frozen=True)
class Submission:
    """What became of runs: a new job, or one that has them already."""

    submitted: dict[str, str]  # ids of jobs, by name of the run
    pending: dict[str, str]  # id and state of the job


def check_cluster(options: ClusterOptions) -> None:
    """Raises InputError where the cluster cannot be used from here."""
    load_submitit()
    cpus = options.slurm.get("cpus_per_task", 1)
    if type(cpus) is not int or cpus < 1:
        raise InputError(f"--set-slurm cpus_per_task must be a whole number above 0; got {cpus!r}.")
    if "nodes" in options.slurm or "tasks_per_node" in options.slurm:
        raise InputError(
            "a job of a study has one node and one task, which starts a process per GPU. For more "
            "nodes, start the run with torchrun; see docs/paper-scale.md."
        )
    if options.kind == "slurm" and shutil.which("sbatch") is None:
        raise InputError(
            "--cluster slurm needs Slurm, but sbatch was not found. Run it on a login node, or use "
            "--cluster local."
        )


def submit(
    runs: Sequence[StudyRun], place: Path, options: ClusterOptions, data_root: Path | None
) -> Submission:
    """Give what is not finished of `runs` to Slurm as one array, but for what a job has already.

    Raises:
        InputError: Slurm refuses them, or somebody else is submitting.
    """
    folder = place.resolve().parent / JOBS
    make_folder(place)
    with only_submitter(folder):
        book = JobBook.read(folder)
        left = [run for run in runs if not run.is_done(place)]
        states = book.states(folder, left)
        pending = {name: f"{book.jobs[name].id}, {state}" for name, state in states.items()}
        new = [run for run in left if run.name not in pending]
        if not new:
            return Submission({}, pending)
        executor = _slurm_executor(folder, options)
        threads = max(1, options.cpus_per_run // max(1, options.gpus_per_run))
        jobs = _submit_array(executor, [_job_of(run, place, options, threads, data_root)
                                        for run in new])  # fmt: skip
        ids = {run.name: job.job_id for run, job in zip(new, jobs, strict=True)}
        book.write_with(
            folder, {name: JobRecord(cluster="slurm", id=one) for name, one in ids.items()}
        )
        return Submission(ids, pending)


def _submit_array(executor: Any, jobs: list[RunJob]) -> list[Any]:
    failed = load_submitit().core.utils.FailedJobError
    try:
        return executor.submit_array(jobs)
    except failed as error:
        lines = [line for line in str(error).splitlines() if line.strip()] or ["no reason given"]
        raise InputError(f"sbatch refused the jobs: {lines[-1].strip()}") from None


def _slurm_executor(folder: Path, options: ClusterOptions) -> Any:
    executor = load_submitit().SlurmExecutor(folder, max_num_timeout=_MOST_TIMEOUTS)
    parameters: dict[str, Any] = {
        "job_name": "remnant",
        "time": max(1, round(60 * options.hours)),
        "cpus_per_task": options.cpus_per_run,
        "stderr_to_stdout": True,
    }
    if options.gpus_per_run:
        parameters["gpus_per_node"] = options.gpus_per_run
    if options.partition is not None:
        parameters["partition"] = options.partition
    try:
        executor.update_parameters(**parameters | dict(options.slurm))
    except ValueError as error:
        known = re.findall(r"^\s*- (\w+) \(", str(error), re.MULTILINE)
        wrong = next((name for name in options.slurm if name not in known), "")
        raise InputError(
            f"--set-slurm has no {wrong!r}.{nearest(wrong, known)} It has {', '.join(known)}."
        ) from None
    return executor


def _job_of(
    run: StudyRun, place: Path, options: ClusterOptions, threads: int, data_root: Path | None
) -> RunJob:
    root = None if data_root is None else data_root.resolve()
    return RunJob(options.prepared(run), place.resolve() / run.name, threads, root)


def carry_out_locally(
    runs: Sequence[StudyRun],
    place: Path,
    options: ClusterOptions,
    jobs: int,
    *,
    progress: Progress,
    data_root: Path | None = None,
) -> list[Failure]:
    """Carry out what is not finished of `runs` as jobs on this machine, and wait for them.

    Raises:
        InputError: Somebody else is submitting.
    """
    folder = place.resolve().parent / JOBS
    make_folder(place)
    failures: list[Failure] = []
    with only_submitter(folder), _cancelling() as running:
        book = JobBook.read(folder)
        left = [run for run in runs if not run.is_done(place)]
        pending = book.states(folder, left)
        failures += [_still_running(run, place, book) for run in left if run.name in pending]
        waiting = [run for run in left if run.name not in pending]
        free = list(range(jobs))
        threads = threads_each(jobs)
        while waiting or running:
            while waiting and free:
                run, slot = waiting.pop(0), free.pop(0)
                given = _job_of(run, place, options, threads, data_root)
                given = replace(given, gpus=_gpus_of(slot, options.gpus_per_run))
                job = _local_executor(folder, options).submit(given)
                record = JobRecord(cluster="local", id=job.job_id)
                book = book.write_with(folder, {run.name: record})
                running[slot] = (job, Job(run, place / run.name, tries=1))
                progress.started(running[slot][1])
            time.sleep(POLL_SECONDS)
            progress.waiting([one for _, one in running.values()])
            for slot in [slot for slot, (job, _) in running.items() if job.done()]:
                _, one = running.pop(slot)
                free.append(slot)
                if is_finished(one.folder):
                    progress.finished(one, time.monotonic() - one.began)
                else:
                    failures.append(_failure(one))
                    progress.failed(failures[-1])
    return failures


def _gpus_of(slot: int, count: int) -> tuple[str, ...]:
    """Those of the job in a slot; more jobs than GPUs allow take them in turn."""
    gpus, first = usable_gpus(), slot * count
    return tuple(gpus[index % len(gpus)] for index in range(first, first + count))


def _local_executor(folder: Path, options: ClusterOptions) -> Any:
    """An executor without GPUs: it knows them by number, users may name them otherwise."""
    executor = load_submitit().LocalExecutor(folder, max_num_timeout=_MOST_TIMEOUTS)
    executor.update_parameters(timeout_min=60 * options.hours)
    return executor


def _failure(one: Job) -> Failure:
    return Failure(one.run.name, one.last_line() or "its job ended without a word", one.log)


def _still_running(run: StudyRun, place: Path, book: JobBook) -> Failure:
    reason = f"its job {book.jobs[run.name].id} of an earlier command is still running"
    return Failure(run.name, reason, log_of(place / run.name))


@contextmanager
def _cancelling() -> Iterator[dict[int, tuple[Any, Job]]]:
    """No local job outlives an interrupted command."""
    running: dict[int, tuple[Any, Job]] = {}
    try:
        yield running
    finally:
        for job, _ in running.values():
            job.cancel()
        while not all(job.done() for job, _ in running.values()):
            time.sleep(POLL_SECONDS)
