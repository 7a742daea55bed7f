"""Runs as processes of their own: several at a time, resumed where they stopped.

Every run is a `remnant run` or `remnant resume`, so that a crash of one takes no other with it and
a killed study goes on from the checkpoints of its runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from remnant.cores import threads_each
from remnant.errors import InputError
from remnant.files import make_folder
from remnant.runs.run_folder import is_finished, read_result
from remnant.studies.run_process import POLL_SECONDS, STOP_SECONDS, TRIES, log_of, start_run
from remnant.studies.study_runs import StudyRun
from remnant.studies.usable_gpus import VISIBLE_GPUS, usable_gpus

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Job:
    """One run on its way."""

    run: StudyRun
    folder: Path
    tries: int = 0
    process: subprocess.Popen[bytes] | None = None
    slot: int = 0  # of those that run at the same time
    began: float = field(default_factory=time.monotonic)

    @property
    def log(self) -> Path:
        return log_of(self.folder)

    def accuracies(self) -> str:
        """After each task so far, in percent."""
        try:
            found = read_result(self.folder).accuracies
        except InputError:
            return ""
        return " ".join(f"{value:.1f}" for value in found)

    def last_line(self) -> str:
        """What the run printed last."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


@dataclass(frozen=True)
class Failure:
    name: str
    reason: str
    log: Path


class Progress(Protocol):
    """Receives the events of a study."""

    def started(self, job: Job) -> None: ...
    def finished(self, job: Job, seconds: float) -> None: ...
    def failed(self, failure: Failure) -> None: ...
    def waiting(self, jobs: Sequence[Job]) -> None: ...


def carry_out(
    runs: Sequence[StudyRun],
    folder: Path,
    jobs: int,
    *,
    progress: Progress,
    data_root: Path | None = None,
) -> list[Failure]:
    """Carry out what is not finished of `runs`, below `folder`; returns those that failed for good.

    Raises:
        InputError: A folder has another run under the name of one of these.
    """
    waiting = [Job(run, folder / run.name) for run in runs if not run.is_done(folder)]
    make_folder(folder)
    threads = threads_each(jobs)
    failures: list[Failure] = []
    with _ending_all() as running:
        while waiting or running:
            while waiting and len(running) < jobs:
                job = waiting.pop(0)
                job.slot = min(set(range(jobs)) - {one.slot for one in running})
                running.append(job)  # first, so that whatever comes between ends it too
                _start(job, threads, data_root)
                progress.started(job)
            time.sleep(POLL_SECONDS)
            progress.waiting(running)
            for job in [job for job in running if job.process and job.process.poll() is not None]:
                running.remove(job)
                if is_finished(job.folder):
                    progress.finished(job, time.monotonic() - job.began)
                elif _was_killed(job) and job.tries < TRIES:
                    waiting.insert(0, job)
                else:
                    failures.append(_failure(job))
                    progress.failed(failures[-1])
    return failures


def _was_killed(job: Job) -> bool:
    return job.process is not None and job.process.returncode < 0


def _failure(job: Job) -> Failure:
    code = job.process.returncode if job.process else None
    reason = f"killed {job.tries} times" if _was_killed(job) else job.last_line()
    return Failure(job.run.name, reason or f"ended with code {code}", job.log)


def _start(job: Job, threads: int, data_root: Path | None) -> None:
    job.tries += 1
    environment = dict(os.environ)
    if gpus := usable_gpus():
        environment[VISIBLE_GPUS] = gpus[job.slot % len(gpus)]
    job.began = time.monotonic()
    job.process = start_run(job.run, job.folder, threads, data_root, environment)


@contextmanager
def _ending_all() -> Iterator[list[Job]]:
    """No run outlives the study: whatever ends it, they get a chance to stop, then none."""
    running: list[Job] = []
    # nohup has hang-ups ignored, and so they stay.
    heeded = [one for one in _STOPPING[1:] if signal.getsignal(one) is not signal.SIG_IGN]
    with _answering(heeded, _interrupt):
        try:
            yield running
        finally:
            with _answering(_STOPPING, signal.SIG_IGN):  # once is enough
                _signal_all(running, signal.SIGINT)
                deadline = time.monotonic() + STOP_SECONDS
                for job in running:
                    _wait(job, deadline - time.monotonic())
                _signal_all(running, signal.SIGKILL)


@contextmanager
def _answering(signals: Sequence[signal.Signals], answer: Any) -> Iterator[None]:
    before = {number: signal.signal(number, answer) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _signal_all(jobs: Sequence[Job], number: signal.Signals) -> None:
    for job in jobs:
        if job.process is not None and job.process.poll() is None:
            job.process.send_signal(number)


def _wait(job: Job, seconds: float) -> None:
    if job.process is not None:
        try:
            job.process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return
