"""The store that is served: asked by many at once, changed by one."""

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
from remnant.memory import PartialCodec
from remnant.serving.jobs import ConflictError, Job, Jobs, Observer
from remnant.serving.schemas import ClassFacts, Guess, StoreFacts
from remnant.serving.uploads import LIMITS

Form = Literal["stored", "completed"]
Stamp = tuple[int, int, int]  # tells one file of a name from the next


class UnknownError(InputError):
    """There is no such class, exemplar or lesson."""


class UnreadableError(InputError):
    """The store was removed or damaged while it was served."""


@dataclass(frozen=True)
class Edition:
    """A store as it was read at one time; lessons do not touch it."""

    learner: Learner
    stamp: Stamp
    asking: threading.Lock = field(default_factory=threading.Lock)
    recalling: threading.Lock = field(default_factory=threading.Lock)  # may take seconds once

    def find(self, name: str) -> Label:
        """The class that is called so.

        Raises:
            UnknownError: There is none.
        """
        for label in self.labels:
            if str(label) == name:
                return label
        raise UnknownError(f"there is no class {name[:100]!r}. GET /api/classes lists them.")

    @property
    def labels(self) -> list[Label]:
        return self.learner.classes_.tolist()


class ServedStore:
    """One store file, read again whenever another process has replaced it.

    Raises:
        InputError: The store is missing, damaged, or of a newer version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.jobs = Jobs()
        self._changing = threading.Lock()
        self._edition = self._read()

    # ---------------------------------------------------------------------------------- asking

    @property
    def name(self) -> str:
        return self.path.name

    def edition(self) -> Edition:
        """The store as it is on disk; during a lesson, as it was before.

        Raises:
            UnreadableError: It is gone or damaged.
        """
        # During a lesson nothing is read anew: building a network would disturb torch's generator.
        if self.jobs.current is None and self._edition.stamp != self._stamp():
            with self._changing:
                if self.jobs.current is None and self._edition.stamp != self._stamp():
                    try:
                        with self._shown():
                            self._edition = self._read()
                    except InputError as error:
                        raise UnreadableError(str(error)) from None
        return self._edition

    def facts(self) -> StoreFacts:
        learner = self.edition().learner
        memory, job = learner.memory_, self.jobs.current
        return StoreFacts(
            name=self.name,
            remnant=__version__,
            method=learner.settings_.method.name,
            image_size=learner.image_size_,
            num_classes=len(learner.classes_),
            num_exemplars=0 if memory is None else sum(memory.counts),
            memory_bytes=0 if memory is None else memory.nbytes,
            budget_bytes=None if memory is None else memory.budget_bytes,
            file_bytes=self.edition().stamp[1],
            history=learner.history_,
            limits=LIMITS,
            job=None if job is None else job.id,
        )

    def classes(self) -> list[ClassFacts]:
        edition = self.edition()
        return [
            ClassFacts(name=str(label), exemplars=len(sizes), bytes=sum(sizes))
            for label in edition.labels
            for sizes in [_sizes(edition, label)]
        ]

    def sizes(self, name: str) -> list[int]:
        """Bytes of each exemplar of a class, best first.

        Raises:
            UnknownError: There is no such class.
        """
        edition = self.edition()
        return _sizes(edition, edition.find(name))

    @property
    def keeps_patches(self) -> bool:
        """Whether exemplars are stored in part, so that the network completes them."""
        memory = self.edition().learner.memory_
        return memory is not None and isinstance(memory.codec, PartialCodec)

    def predict(self, image: EncodedImage, top: int) -> list[Guess]:
        """The likeliest classes, best first."""
        edition = self.edition()
        with edition.asking:
            chances = edition.learner.predict_proba([image])[0]
        return [
            Guess(name=str(edition.labels[index]), probability=float(chances[index]))
            for index in np.argsort(-chances, kind="stable")[:top]
        ]

    def picture(self, name: str, rank: int, form: Form) -> bytes:
        """An exemplar as a PNG.

        Raises:
            UnknownError: There is no such class or exemplar.
        """
        edition = self.edition()
        label, num_stored = edition.find(name), len(self.sizes(name))
        if not 0 <= rank < num_stored:
            raise UnknownError(f"class {name!r} has {num_stored:,} exemplars, from rank 0.")
        with edition.recalling:
            kept = edition.learner.remembered(label)
        pixels = kept.completed[rank] if form == "completed" else kept.picture(rank)
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, format="PNG")
        return buffer.getvalue()

    # -------------------------------------------------------------------------------- changing

    def teach(self, name: str, images: list[EncodedImage]) -> Job:
        """Begin a lesson; until its end the store answers as before.

        Raises:
            ConflictError: Another is under way.
            InputError: The name does not suit the classes that are known.
        """
        learner = self.edition().learner
        label = _as_label(name, self.edition().labels)

        def learn(observer: Observer) -> None:
            with self._shown():
                learn_into_store(
                    self.path,
                    images,
                    [label] * len(images),
                    watchers=(observer,),
                    before_writing=observer.check,
                    quiet=True,
                )
                self._edition = self._read()

        with self._changing:
            return self.jobs.start(name, len(images), len(learner.history_), learn)

    def forget(self, name: str) -> str:
        """Remove a class from the file; says what cannot be undone.

        Raises:
            UnknownError: There is no such class.
            ConflictError: A lesson is under way, or the class cannot be cut out.
        """
        label = self.edition().find(name)
        with self._changing:
            self.jobs.check_free()
            try:
                with self._shown():
                    told = forget_in_store(self.path, label)
            except InputError as error:
                raise ConflictError(str(error)) from None
            except OSError as error:
                raise ConflictError(f"{error.strerror or error}. The store is as it was.") from None
            self._edition = self._read()
        return told

    def close(self) -> None:
        self.jobs.close()

    # --------------------------------------------------------------------------------- private

    def _read(self) -> Edition:
        stamp = self._stamp()
        learner = Learner.load(self.path)
        return self._new_edition(learner.set_params(quiet=True), stamp)

    def _new_edition(self, learner: Learner, stamp: Stamp | None = None) -> Edition:
        # Asked once, so that what is built at the first question is there for all threads.
        size = learner.image_size_
        learner.predict_proba(np.zeros((1, size, size, 3), np.uint8))
        return Edition(learner, stamp or self._stamp())

    def _stamp(self) -> Stamp:
        try:
            facts = self.path.stat()
        except OSError:
            return 0, 0, 0
        return facts.st_ino, facts.st_size, facts.st_mtime_ns

    @contextmanager
    def _shown(self) -> Iterator[None]:
        """Errors that name the store without telling those who ask where it lies."""
        try:
            yield
        except InputError as error:
            message = str(error).replace(str(self.path), self.name)
            raise InputError(message) from None


def _sizes(edition: Edition, label: Label) -> list[int]:
    memory = edition.learner.memory_
    number = edition.labels.index(label)
    return [] if memory is None or number not in memory.labels else memory.exemplar_bytes(number)


def _as_label(name: str, known: list[Label]) -> Label:
    if isinstance(known[0], str):
        return name
    if name.isascii() and name.isdigit() and len(name) <= 18:
        return int(name)
    raise InputError(
        f"the classes of this store are whole numbers; got {name!r}. Name the class by a number."
    )
