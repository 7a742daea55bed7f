"""Teaching jobs: one at a time, in a thread of their own, with progress and cancellation."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

from remnant.errors import InputError
from remnant.learner.measuring import GuardError
from remnant.learner.work_folder import explain_failure
from remnant.phases import StepReport
from remnant.serving.schemas import JobStatus
from remnant.terminal.progress import TimeLeft

_MAX_KEPT = 100  # jobs whose status can still be requested
_MAX_NAMED = 3  # classes of a job, for display
log = logging.getLogger(__name__)


class ConflictError(InputError):
    """The current state of the store or of a job does not allow the request."""


class CancelledJobError(Exception):
    """The job was cancelled by the user."""


@dataclass
class Job:
    """One job. Its thread writes, other threads read; fields are only ever replaced whole."""

    id: int
    classes: list[str]
    num_images: int
    future: Future[dict[str, Any]] = field(init=False)
    is_cancelled: threading.Event = field(default_factory=threading.Event)
    share_done: float = 0.0
    doing: str = "preparing"
    seconds_left: float | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.future.done()

    @property
    def name(self) -> str:
        """The classes in a few words."""
        names = self.classes
        if len(names) > _MAX_NAMED:
            return f"{', '.join(names[: _MAX_NAMED - 1])} and {len(names) - _MAX_NAMED + 1:,} more"
        return " and ".join([part for part in (", ".join(names[:-1]), names[-1]) if part])

    def status(self) -> JobStatus:
        is_over, error = self.is_over, None
        if is_over:
            error = self.future.exception()
        state = _state_after(error) if is_over else "running"
        return JobStatus(
            id=self.id,
            name=self.name,
            classes=self.classes,
            images=self.num_images,
            state=state,
            share_done=1.0 if state == "done" else self.share_done,
            doing=self.doing if state == "running" else state,
            seconds_left=self.seconds_left if state == "running" else None,
            notes=self.notes,
            error=_sentence(error) if state in ("failed", "refused") and error else None,
            update=self.future.result() if state == "done" else None,
        )


class Observer:
    """Copies the progress of training into a job, and stops training if the job is cancelled."""

    def __init__(self, job: Job, num_updates: int) -> None:
        self._job = job
        self._left = TimeLeft([0] * (num_updates + 1))  # no plan: counts the current phase only
        self._began = time.monotonic()

    def check(self) -> None:
        """Raises CancelledJobError if the job was cancelled."""
        if self._job.is_cancelled.is_set():
            raise CancelledJobError

    def on_step(self, report: StepReport) -> None:
        job, left = self._job, self._left
        self.check()
        left.on_step(report)
        # The last 2 % are for choosing exemplars and writing the store.
        job.share_done = 0.98 * left.share_done
        job.seconds_left = left.seconds
        job.doing = f"epoch {report.epoch + 1:,} of {report.num_epochs:,}"
        if report.step + 1 == report.num_steps:
            job.doing = "choosing exemplars"

    def on_notes(self, notes: Sequence[str]) -> None:
        self._job.notes = [*self._job.notes, *notes]

    def on_images(self, num_read: int, num_images: int) -> None:
        """For a method that trains nothing: it has read so many of its images."""
        self.check()
        each = (time.monotonic() - self._began) / max(1, num_read)
        self._job.share_done = 0.98 * num_read / max(1, num_images)
        self._job.seconds_left = each * (num_images - num_read)
        self._job.doing = f"{num_read:,} of {num_images:,} images read"


class Jobs:
    """All jobs of a server; at most one is running."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._latest: Job | None = None  # asked for without the lock, while another one starts
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="teaching")

    @property
    def current(self) -> Job | None:
        """The running job."""
        latest = self._latest
        return None if latest is None or latest.is_over else latest

    def start(
        self,
        classes: list[str],
        num_images: int,
        num_updates: int,
        teach: Callable[[Observer], dict[str, Any]],
        notes: Sequence[str] = (),
    ) -> Job:
        """Start a job.

        Args:
            notes: Sentences about images that are not among them.
            num_updates: Number of updates that the store has had so far.
            teach: Does the work and returns the new entry of the history; must pass the observer
                every training step.

        Raises:
            ConflictError: Another job is running.
        """
        with self._lock:
            self.check_free()
            job = Job(max(self._jobs, default=0) + 1, classes, num_images, notes=list(notes))
            job.future = self._pool.submit(teach, Observer(job, num_updates))
            job.future.add_done_callback(_log_internal_error)
            self._jobs[job.id] = self._latest = job
            for old in list(self._jobs)[:-_MAX_KEPT]:
                del self._jobs[old]
        return job

    def find(self, number: int) -> Job | None:
        return self._jobs.get(number)

    def check_free(self) -> None:
        """Raises ConflictError while a job is running."""
        job = self.current
        if job is not None:
            raise ConflictError(
                f"{job.name!r} is being taught. Wait until it is done or cancel it."
            )

    def cancel(self, job: Job) -> None:
        """Stop a job at its next training step, or after the images that it is reading.

        Raises:
            ConflictError: It has already ended.
        """
        if job.is_over:
            raise ConflictError(f"job {job.id} cannot be cancelled; it has already ended.")
        job.is_cancelled.set()
        job.doing = "stopping"

    def close(self) -> None:
        """Cancel the running job and wait for it to stop."""
        job = self.current
        if job is not None:
            job.is_cancelled.set()
        self._pool.shutdown(wait=True)


def _state_after(error: BaseException | None) -> Literal["done", "refused", "failed", "cancelled"]:
    if error is None:
        return "done"
    if isinstance(error, CancelledJobError):
        return "cancelled"
    return "refused" if isinstance(error, GuardError) else "failed"


def _sentence(error: BaseException) -> str:
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, OSError):
        return explain_failure(error)
    return (
        f"teaching failed ({type(error).__name__}). The store is unchanged; see the server's log."
    )


def _log_internal_error(future: Future[Any]) -> None:
    error = future.exception()
    if error is not None and not isinstance(error, InputError | CancelledJobError):
        log.error("teaching failed", exc_info=error)
