"""The store behind the server: read by many threads, changed by one at a time."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from remnant._version import __version__
from remnant.errors import InputError
from remnant.learner import Learner, forget_in_store, learn_into_store
from remnant.learner.inputs import EncodedImage, Label
from remnant.learner.store import explain_failure
from remnant.memory import PartialCodec
from remnant.serving.jobs import ConflictError, Job, Jobs, Observer
from remnant.serving.schemas import ClassInfo, Guess, StoreInfo
from remnant.serving.uploads import LIMITS

PictureKind = Literal["stored", "completed"]
FileStamp = tuple[int, int, int]  # inode, size, time of the last change


class NotFoundError(InputError):
    """There is no such class, exemplar or job."""


class UnreadableError(InputError):
    """The store file was removed or damaged while it was being served."""


@dataclass(frozen=True)
class StoreVersion:
    """The store as read from disk at one time; a running job does not change it."""

    learner: Learner
    stamp: FileStamp
    predict_lock: threading.Lock = field(default_factory=threading.Lock)
    recall_lock: threading.Lock = field(default_factory=threading.Lock)  # may be held for seconds

    def find(self, name: str) -> Label:
        """The label of the class of this name.

        Raises:
            NotFoundError: There is none.
        """
        for label in self.labels:
            if str(label) == name:
                return label
        raise NotFoundError(f"there is no class {name[:100]!r}. GET /api/classes lists them.")

    @property
    def labels(self) -> list[Label]:
        return self.learner.classes_.tolist()


class StoreSession:
    """One store file, read again when another process has replaced it.

    Raises:
        InputError: The store is missing, damaged, or of a newer version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.jobs = Jobs()
        self._write_lock = threading.Lock()
        self._version = self._read()

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
        if self.jobs.current is None and self._version.stamp != self._stamp():
            with self._write_lock:
                if self.jobs.current is None and self._version.stamp != self._stamp():
                    try:
                        with self._without_path():
                            self._version = self._read()
                    except InputError as error:
                        raise UnreadableError(str(error)) from None
        return self._version

    def info(self) -> StoreInfo:
        learner = self.version().learner
        memory, job = learner.memory_, self.jobs.current
        return StoreInfo(
            name=self.name,
            remnant=__version__,
            method=learner.settings_.method.name,
            image_size=learner.image_size_,
            num_classes=len(learner.classes_),
            num_exemplars=0 if memory is None else sum(memory.counts),
            memory_bytes=0 if memory is None else memory.nbytes,
            budget_bytes=None if memory is None else memory.budget_bytes,
            file_bytes=self.version().stamp[1],
            history=learner.history_,
            limits=LIMITS,
            job=None if job is None else job.id,
        )

    def classes(self) -> list[ClassInfo]:
        version = self.version()
        return [
            ClassInfo(name=str(label), exemplars=len(sizes), bytes=sum(sizes))
            for label in version.labels
            for sizes in [_exemplar_bytes(version, label)]
        ]

    def exemplar_bytes(self, name: str) -> list[int]:
        """Bytes of each exemplar of a class, best first.

        Raises:
            NotFoundError: There is no such class.
        """
        version = self.version()
        return _exemplar_bytes(version, version.find(name))

    @property
    def keeps_patches(self) -> bool:
        """Whether only some patches of an image are stored, and the network completes the rest."""
        memory = self.version().learner.memory_
        return memory is not None and isinstance(memory.codec, PartialCodec)

    def predict(self, image: EncodedImage, top: int) -> list[Guess]:
        """The most probable classes, best first."""
        version = self.version()
        with version.predict_lock:
            probabilities = version.learner.predict_proba([image])[0]
        return [
            Guess(name=str(version.labels[index]), probability=float(probabilities[index]))
            for index in np.argsort(-probabilities, kind="stable")[:top]
        ]

    def picture(self, name: str, rank: int, kind: PictureKind) -> bytes:
        """An exemplar as a PNG.

        Raises:
            NotFoundError: There is no such class or exemplar.
        """
        version = self.version()
        label, num_stored = version.find(name), len(self.exemplar_bytes(name))
        if not 0 <= rank < num_stored:
            raise NotFoundError(f"class {name!r} has {num_stored:,} exemplars; ranks start at 0.")
        with version.recall_lock:
            kept = version.learner.remembered(label)
        pixels = kept.completed[rank] if kind == "completed" else kept.picture(rank)
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, format="PNG")
        return buffer.getvalue()

    # -------------------------------------------------------------------------------- changing

    def teach(self, name: str, images: list[EncodedImage]) -> Job:
        """Start a job; until it is done, predictions come from the store as it was before.

        Raises:
            ConflictError: Another job is running.
            InputError: The classes of the store are numbers, and the name is not one.
        """
        learner = self.version().learner
        label = _as_label(name, self.version().labels)

        def learn(observer: Observer) -> None:
            with self._without_path():
                learn_into_store(
                    self.path,
                    images,
                    [label] * len(images),
                    watchers=(observer,),
                    before_writing=observer.check,
                    quiet=True,
                )
                self._version = self._read()

        with self._write_lock:
            # Not the length of the history: one entry of a run stands for all of its tasks.
            num_updates = len(learner.state_.task_sizes)
            return self.jobs.start(name, len(images), num_updates, learn)

    def forget(self, name: str) -> str:
        """Remove a class from the store and return a sentence for the user.

        Raises:
            NotFoundError: There is no such class.
            ConflictError: A job is running, or the class cannot be removed.
        """
        label = self.version().find(name)
        with self._write_lock:
            self.jobs.check_free()
            try:
                with self._without_path():
                    message = forget_in_store(self.path, label)
            except InputError as error:
                raise ConflictError(str(error)) from None
            except OSError as error:
                raise ConflictError(explain_failure(error)) from None
            self._version = self._read()
        return message

    def close(self) -> None:
        self.jobs.close()

    # --------------------------------------------------------------------------------- private

    def _read(self) -> StoreVersion:
        stamp = self._stamp()
        learner = Learner.load(self.path).set_params(quiet=True)
        # One prediction now, so that what it builds and caches is shared by all threads.
        size = learner.image_size_
        learner.predict_proba(np.zeros((1, size, size, 3), np.uint8))
        return StoreVersion(learner, stamp)

    def _stamp(self) -> FileStamp:
        try:
            status = self.path.stat()
        except OSError:
            return 0, 0, 0
        return status.st_ino, status.st_size, status.st_mtime_ns

    @contextmanager
    def _without_path(self) -> Iterator[None]:
        """Shortens the store's path in error messages to its name: clients need not know it."""
        try:
            yield
        except InputError as error:
            message = str(error).replace(str(self.path), self.name)
            raise InputError(message) from None


def _exemplar_bytes(version: StoreVersion, label: Label) -> list[int]:
    memory = version.learner.memory_
    number = version.labels.index(label)
    return [] if memory is None or number not in memory.labels else memory.exemplar_bytes(number)


def _as_label(name: str, known: list[Label]) -> Label:
    if isinstance(known[0], str):
        return name
    if name.isascii() and name.isdigit() and len(name) <= 18:
        return int(name)
    raise InputError(
        f"the classes of this store are whole numbers; got {name!r}. Name the class by a number."
    )
