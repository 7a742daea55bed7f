"""Runs as processes of their own: several at a time, resumed where they stopped.

Every run is a `remnant run` or `remnant resume`, so that a crash of one takes no other with it and
a killed study goes on from the checkpoints of its runs.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from remnant.config import RunConfig, load_config, override
from remnant.cores import threads_each
from remnant.errors import InputError
from remnant.files import make_folder, write_json
from remnant.runs.run_folder import CONFIG, is_finished, read_result
from remnant.studies.study_runs import StudyRun
from remnant.studies.usable_gpus import VISIBLE_GPUS, usable_gpus

_POLL_SECONDS = 0.5
_TRIES = 3  # of a run that was killed; one that ends by itself with an error is not tried again
_STOP_SECONDS = 20.0
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
        return self.folder.parent / f"{self.folder.name}.log"

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
    """Who is told what happens."""

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
            time.sleep(_POLL_SECONDS)
            progress.waiting(running)
            for job in [job for job in running if job.process and job.process.poll() is not None]:
                running.remove(job)
                if is_finished(job.folder):
                    progress.finished(job, time.monotonic() - job.began)
                elif _was_killed(job) and job.tries < _TRIES:
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
    arguments = command_of(job.run, job.folder, threads, data_root)
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "NO_COLOR": "1"}
    if gpus := usable_gpus():
        environment[VISIBLE_GPUS] = gpus[job.slot % len(gpus)]
    job.began = time.monotonic()
    with job.log.open("ab") as log:
        job.process = subprocess.Popen(
            [sys.executable, "-m", "remnant", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches this process alone, which ends the others
            preexec_fn=end_with(os.getpid()),
        )


_PR_SET_PDEATHSIG = 1  # of Linux's prctl


def end_with(parent: int) -> Callable[[], None] | None:
    """What a new process does first so that it is killed with its parent, however that ends.

    A study that is killed cannot end its runs itself, and the same command would start them again
    beside the first ones. None where the system cannot do it.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork, after which little is safe

    def end_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before
            os._exit(1)

    return end_with_parent


def command_of(run: StudyRun, folder: Path, threads: int, data_root: Path | None) -> list[str]:
    """What follows `remnant` to begin or to continue a run; begins by writing its config.

    A run that goes on keeps its threads, on which the last bits of its numbers depend; its data may
    lie elsewhere by now.
    """
    if (folder / CONFIG).exists():
        before = load_config(folder / CONFIG)
        after = _with_data_root(before, data_root)
        if after != before:
            write_json(folder / CONFIG, after.model_dump(mode="json"))
        return ["resume", str(folder)]
    config = folder.parent / f"{folder.name}.json"
    write_json(config, _for_this_machine(run.config, threads, data_root).model_dump(mode="json"))
    return ["run", str(config), "--out", str(folder)]


def _for_this_machine(config: RunConfig, threads: int, data_root: Path | None) -> RunConfig:
    return override(_with_data_root(config, data_root), {"training.threads": threads})


def _with_data_root(config: RunConfig, data_root: Path | None) -> RunConfig:
    root = {} if data_root is None else {"data.root": str(data_root.resolve())}
    return override(config, root)


@contextmanager
def _ending_all() -> Iterator[list[Job]]:
    """No run outlives the study: whatever ends it, they get a chance to stop, then none."""
    running: list[Job] = []
    with _answering(_STOPPING[1:], _interrupt):
        try:
            yield running
        finally:
            with _answering(_STOPPING, signal.SIG_IGN):  # once is enough
                _signal_all(running, signal.SIGINT)
                deadline = time.monotonic() + _STOP_SECONDS
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
