"""One run as a job of a cluster: what happens on the machine that the job was given.

It is what `fan_out` does with a process: `remnant run`, or `remnant resume` where the run was
begun. So whatever ends a job (preemption, a time limit, a node that fails), the one that comes
after it goes on from the last checkpoint, exactly.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from remnant.runs.run_folder import is_finished
from remnant.studies.fan_out import Job, command_of, end_with
from remnant.studies.job_book import load_submitit
from remnant.studies.study_runs import StudyRun
from remnant.studies.usable_gpus import VISIBLE_GPUS

_POLL_SECONDS = 0.5
_STOP_SECONDS = 20.0  # submitit leaves a job 30 seconds or more
_TRIES = 3  # within one job, of a run that was killed alone


@dataclass
class RunJob:
    """One run, called by submitit on the machine of the job."""

    run: StudyRun
    folder: Path
    threads: int
    data_root: Path | None
    gpus: tuple[str, ...] = ()  # to be seen by the run; (): those that the cluster has given
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __call__(self) -> None:
        """Carry out the run, or what is left of it.

        Raises:
            RuntimeError: It failed; the job then counts as failed.
        """
        code = 0
        for _ in range(_TRIES):
            if is_finished(self.folder):
                return
            code = self._carry_out()
            if code >= 0:  # it ended by itself
                break
        if not is_finished(self.folder):
            log = Job(self.run, self.folder).log
            raise RuntimeError(f"{self.run.name} ended with code {code}; see {log}")

    def checkpoint(self) -> Any:
        """What submitit is to queue again, asked for when the time of a job is up."""
        self._stop()
        return load_submitit().helpers.DelayedSubmission(replace(self))

    def _carry_out(self) -> int:
        try:
            self._start()
            assert self.process is not None
            # Not wait(): it would keep its lock from _stop, which a signal calls meanwhile.
            while self.process.poll() is None:
                time.sleep(_POLL_SECONDS)
            return self.process.returncode
        finally:
            self._stop()

    def _start(self) -> None:
        arguments = command_of(self.run, self.folder, self.threads, self.data_root)
        with Job(self.run, self.folder).log.open("ab") as log, _holding_back(signal.SIGUSR2):
            self.process = subprocess.Popen(
                [sys.executable, "-m", "remnant", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_environment(self.threads, self.gpus),
                start_new_session=True,
                preexec_fn=end_with(os.getpid()),
            )

    def _stop(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def _holding_back(number: signal.Signals) -> Iterator[None]:
    """Within the block a signal waits, and processes started there never see it.

    Slurm signals all processes of a job. The run is stopped by its job, which is to know of it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _environment(threads: int, gpus: tuple[str, ...]) -> dict[str, str]:
    """Without Slurm's variables: Fabric would take the one task of the job for all processes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    own = {VISIBLE_GPUS: ",".join(gpus)} if gpus else {}
    return kept | own | {"OMP_NUM_THREADS": str(threads), "NO_COLOR": "1"}
