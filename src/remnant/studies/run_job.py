"""One run as a job of a cluster: what happens on the machine that the job was given.

It is what `fan_out` does with a process: `remnant run`, or `remnant resume` where the run was
begun. So whatever ends a job (preemption, a time limit, a node that fails), the one that comes
after it goes on from the last checkpoint, exactly.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from remnant.runs.run_folder import is_finished
from remnant.studies.job_book import load_submitit
from remnant.studies.run_process import POLL_SECONDS, STOP_SECONDS, TRIES, log_of, start_run
from remnant.studies.study_runs import StudyRun
from remnant.studies.usable_gpus import VISIBLE_GPUS


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
        for _ in range(TRIES):
            if is_finished(self.folder):
                return
            code = self._carry_out()
            if code >= 0:  # it ended by itself
                break
        if not is_finished(self.folder):
            log = log_of(self.folder)
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
                time.sleep(POLL_SECONDS)
            return self.process.returncode
        finally:
            self._stop()

    def _start(self) -> None:
        environment = _environment(self.gpus)
        with _holding_back(signal.SIGUSR2):
            self.process = start_run(
                self.run, self.folder, self.threads, self.data_root, environment
            )

    def _stop(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def _holding_back(number: signal.Signals) -> Iterator[None]:
    """Within the block a signal waits, and processes started there never see it.

    Slurm signals all processes of a job. The job itself stops the run, so it must get the signal
    first.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _environment(gpus: tuple[str, ...]) -> dict[str, str]:
    """Without Slurm's variables: Fabric would take the one task of the job for all processes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    return kept | ({VISIBLE_GPUS: ",".join(gpus)} if gpus else {})
