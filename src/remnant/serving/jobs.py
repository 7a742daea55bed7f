"""Lessons: one at a time, in a thread of their own, to be watched and stopped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from remnant.errors import InputError
from remnant.phases import StepReport
from remnant.serving.schemas import JobFacts
from remnant.terminal.progress import TimeLeft

_KEPT = 100  # jobs that can still be asked for
log = logging.getLogger(__name__)


class ConflictError(InputError):
    """The store, or a lesson, is in no state for what was asked."""


class StoppedError(Exception):
    """Somebody asked for a lesson to end."""


@dataclass
class Job:
    """One lesson. Its thread writes, others read; every field is replaced whole."""

    id: int
    name: str
    num_images: int
    future: Future[Any] = field(init=False)
    is_cancelled: threading.Event = field(default_factory=threading.Event)
    share_done: float = 0.0
    doing: str = "preparing"
    seconds_left: float | None = None

    @property
    def is_over(self) -> bool:
        return self.future.done()

    def facts(self) -> JobFacts:
        is_over, error = self.is_over, None
        if is_over:
            error = self.future.exception()
        state = "running" if not is_over else "done" if error is None else "failed"
        if isinstance(error, StoppedError):
            state = "cancelled"
        return JobFacts(
            id=self.id,
            name=self.name,
            images=self.num_images,
            state=state,
            share_done=1.0 if state == "done" else self.share_done,
            doing=self.doing if state == "running" else state,
            seconds_left=self.seconds_left if state == "running" else None,
            error=_sentence(error) if state == "failed" and error is not None else None,
        )


class Observer:
    """Tells a job how its training goes, and ends the training of one that is cancelled."""

    def __init__(self, job: Job, num_updates: int) -> None:
        self._job = job
        self._left = TimeLeft([0] * (num_updates + 1))  # nothing planned: the phase at hand counts

    def check(self) -> None:
        """End the lesson if somebody asked for that."""
        if self._job.is_cancelled.is_set():
            raise StoppedError

    def on_step(self, report: StepReport) -> None:
        job, left = self._job, self._left
        self.check()
        left.on_step(report)
        # The rest is for what follows the last step: choosing exemplars and writing the store.
        job.share_done = 0.98 * left.share_done
        job.seconds_left = left.seconds
        job.doing = f"epoch {report.epoch + 1:,} of {report.num_epochs:,}"
        if report.step + 1 == report.num_steps:
            job.doing = "choosing what to remember"


class Jobs:
    """All lessons of a server, of which one at most is under way."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="teaching")

    @property
    def current(self) -> Job | None:
        """The one under way."""
        latest = next(reversed(self._jobs.values()), None)
        return None if latest is None or latest.is_over else latest

    def start(
        self, name: str, num_images: int, num_updates: int, teach: Callable[[Observer], None]
    ) -> Job:
        """Begin a lesson.

        Args:
            num_updates: That the store has behind it.
            teach: Does the work, telling the watcher of every step.

        Raises:
            ConflictError: Another is under way.
        """
        with self._lock:
            self.check_free()
            job = Job(max(self._jobs, default=0) + 1, name, num_images)
            job.future = self._pool.submit(teach, Observer(job, num_updates))
            job.future.add_done_callback(_log_surprise)
            self._jobs[job.id] = job
            for old in list(self._jobs)[:-_KEPT]:
                del self._jobs[old]
        return job

    def find(self, number: int) -> Job | None:
        return self._jobs.get(number)

    def check_free(self) -> None:
        """Raises ConflictError while a lesson is under way."""
        job = self.current
        if job is not None:
            raise ConflictError(f"{job.name!r} is being taught. Wait for the end, or cancel it.")

    def cancel(self, job: Job) -> None:
        """End a lesson at its next step.

        Raises:
            ConflictError: It is over.
        """
        if job.is_over:
            raise ConflictError(f"lesson {job.id} is over, so that it cannot be cancelled.")
        job.is_cancelled.set()
        job.doing = "stopping"

    def close(self) -> None:
        """End the lesson under way and wait for it; the store is as it was."""
        job = self.current
        if job is not None:
            job.is_cancelled.set()
        self._pool.shutdown(wait=True)


def _sentence(error: BaseException) -> str:
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.strerror or error}. The store is as it was."
    return (
        f"teaching failed ({type(error).__name__}). The store is as it was; see the server's log."
    )


def _log_surprise(future: Future[Any]) -> None:
    error = future.exception()
    if error is not None and not isinstance(error, InputError | StoppedError):
        log.error("teaching failed", exc_info=error)
