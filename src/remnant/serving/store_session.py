"""The store behind the server: read by many threads, changed by one at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from remnant._version import __version__
from remnant.errors import InputError
from remnant.learner import forget_in_store, learn_into_store, undo_in_store
from remnant.learner.previous_store import previous_of
from remnant.learner.work_folder import explain_failure
from remnant.serving.audit import AuditLog
from remnant.serving.jobs import ConflictError, Job, Jobs, Observer
from remnant.serving.schemas import ClassInfo, StoreInfo
from remnant.serving.store_version import StoreVersion, read_version, stamp_of
from remnant.serving.uploads import LIMITS, Received

log = logging.getLogger(__name__)


class UnreadableError(InputError):
    """The store file was removed or damaged while it was being served."""


class StoreSession:
    """One store file, read again when another process has replaced it.

    Args:
        path: The store file.
        audit: A file to which a line is added for every attempt to change the store.

    Raises:
        InputError: The store is missing, damaged, or of a newer version, or `audit` cannot be used.
    """

    def __init__(self, path: Path, audit: Path | None = None) -> None:
        self.path = path.resolve()
        self.jobs = Jobs()
        self._write_lock = threading.Lock()
        # Before the audit file is made, so that a mistyped name of the store leaves none behind.
        self._version = read_version(self.path)
        self._audit = AuditLog(audit, kept=(self.path, previous_of(self.path)))

    # --------------------------------------------------------------------------------- reading

    @property
    def name(self) -> str:
        return self.path.name

    def version(self) -> StoreVersion:
        """The store as it is on disk; while a job runs, as it was before the job.

        Raises:
            UnreadableError: The file was removed or damaged.
        """
        # Not while a job runs: building a network would disturb torch's global generator.
        if self.jobs.current is None and self._version.stamp != stamp_of(self.path):
            with self._write_lock:
                if self.jobs.current is None and self._version.stamp != stamp_of(self.path):
                    try:
                        with self._without_path():
                            self._version = read_version(self.path)
                    except InputError as error:
                        raise UnreadableError(str(error)) from None
        return self._version

    def info(self) -> StoreInfo:
        version, job = self.version(), self.jobs.current
        state = version.state
        memory = state.method.memory
        return StoreInfo(
            name=self.name,
            remnant=__version__,
            method=state.config.method.name,
            image_size=version.image_size,
            num_classes=len(state.classes),
            num_exemplars=state.num_exemplars,
            memory_bytes=0 if memory is None else memory.nbytes,
            budget_bytes=None if memory is None else memory.budget_bytes,
            file_bytes=version.stamp[1],
            history=[dict(entry) for entry in state.history],
            limits=LIMITS,
            job=None if job is None else job.id,
            can_undo=previous_of(self.path).is_file(),
        )

    def classes(self) -> list[ClassInfo]:
        version = self.version()
        return [
            ClassInfo(name=str(label), exemplars=len(sizes), bytes=sum(sizes))
            for label in version.state.classes
            for sizes in [version.exemplar_bytes(label)]
        ]

    # -------------------------------------------------------------------------------- changing

    def teach(self, received: Received, guard: float | None, client: str = "") -> Job:
        """Start a job; until it is done, predictions come from the store as it was before.

        Args:
            received: Images of the store's size, with their classes.
            guard: Refuse if an old class would lose more points of accuracy than this.
            client: Who asks for it, for the audit log.

        Raises:
            ConflictError: Another job is running.
            InputError: The classes of the store are numbers, and a name is not one.
        """
        version = self.version()
        images, labels = received.images, version.as_labels(received.names)
        taught = list(dict.fromkeys(received.names))

        def learn(observer: Observer) -> dict[str, Any]:
            noting = self._audit.noting(
                client, "teach", self._digest, classes=taught, images=len(images)
            )
            with noting, self._without_path():
                state = learn_into_store(
                    self.path,
                    images,
                    labels,
                    watchers=(observer,),
                    before_writing=observer.check,
                    guard=guard,
                    quiet=True,
                )
                self._read_again()
            return dict(state.history[-1])

        with self._write_lock:
            # Not the length of the history: one entry of a run stands for all of its tasks.
            num_updates = len(version.state.task_sizes)
            return self.jobs.start(taught, len(images), num_updates, learn, received.notes)

    def forget(self, name: str, client: str = "") -> str:
        """Remove a class from the store and return a sentence for the user.

        Args:
            name: Of the class.
            client: Who asks for it, for the audit log.

        Raises:
            NotFoundError: There is no such class.
            ConflictError: A job is running, or the class cannot be removed.
        """
        label = self.version().find(name)
        with self._changing(client, "forget", classes=[name]):
            return forget_in_store(self.path, label)

    def undo(self, client: str = "") -> str:
        """Take the last update back and return a sentence for the user.

        Args:
            client: Who asks for it, for the audit log.

        Raises:
            ConflictError: A job is running, or there is nothing to undo.
        """
        with self._changing(client, "undo"):
            state = undo_in_store(self.path)
        return (
            f"{self.name} is as it was before its last update: {len(state.classes):,} classes, "
            f"{state.num_exemplars:,} exemplars."
        )

    def close(self) -> None:
        self.jobs.close()

    # --------------------------------------------------------------------------------- private

    @contextmanager
    def _changing(self, client: str, action: str, **facts: Any) -> Iterator[None]:
        """While no job runs; reads the store again afterwards.

        Raises:
            ConflictError: A job is running, or the store could not be changed.
        """
        with self._write_lock, self._audit.noting(client, action, self._digest, **facts):
            self.jobs.check_free()
            try:
                with self._without_path():
                    yield
            except InputError as error:
                raise ConflictError(str(error)) from None
            except OSError as error:
                raise ConflictError(explain_failure(error)) from None
            self._read_again()

    def _read_again(self) -> None:
        """After a change, which stands even if this fails: the next request reads it then."""
        try:
            self._version = read_version(self.path)
        except (InputError, OSError, MemoryError) as error:
            log.error("%s could not be read again (%s)", self.path, error)

    def _digest(self) -> str:
        """Digest of the store as it is on disk."""
        if self._version.stamp != stamp_of(self.path):
            self._read_again()
        return self._version.state.digest()

    @contextmanager
    def _without_path(self) -> Iterator[None]:
        """Shortens the store's path in error messages to its name: clients need not know it."""
        try:
            yield
        except InputError as error:
            error.args = (str(error).replace(str(self.path), self.name),)
            raise
