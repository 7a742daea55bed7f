"""The store as it was read at one time, and what it answers."""

from __future__ import annotations

import io
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image

from remnant.errors import InputError
from remnant.learner.inputs import FramedImage, Label, gather_labelled
from remnant.learner.learner_state import LearnerState
from remnant.learner.predictor import Predictor
from remnant.learner.scoring import ScoredFolder, compare_labels, known_labels
from remnant.learner.store import read_store
from remnant.memory import PartialCodec
from remnant.serving.schemas import Guess, Prediction

PictureKind = Literal["stored", "completed"]
FileStamp = tuple[int, int, int]  # inode, size, time of the last change
_SCORED_AT_ONCE = 8  # images, so that others are answered in between


class NotFoundError(InputError):
    """There is no such class, exemplar or job."""


@dataclass(frozen=True)
class StoreVersion:
    """One version of the store; a running job does not change it."""

    predictor: Predictor
    stamp: FileStamp
    seconds_per_image: float  # of a prediction, as measured in this process
    predict_lock: threading.Lock = field(default_factory=threading.Lock)
    recall_lock: threading.Lock = field(default_factory=threading.Lock)  # may be held for seconds

    @property
    def state(self) -> LearnerState:
        return self.predictor.state

    @property
    def image_size(self) -> int:
        """Side of the images that the store takes, in pixels."""
        return self.state.config.image_size

    # --------------------------------------------------------------------------------- classes

    def find(self, name: str) -> Label:
        """The label of the class of this name.

        Raises:
            NotFoundError: There is none.
        """
        for label in self.state.classes:
            if str(label) == name:
                return label
        raise NotFoundError(f"there is no class {name[:100]!r}. GET /api/classes lists them.")

    def as_labels(self, names: list[str]) -> list[Label]:
        """Names of classes, known or not, in the form that the store has.

        Raises:
            InputError: The classes of the store are numbers, and a name is not one.
        """
        if isinstance(self.state.classes[0], str):
            return [*names]
        wrong = next((one for one in names if not _is_number(one)), None)
        if wrong is not None:
            raise InputError(
                f"the classes of this store are whole numbers; got {wrong!r}. Name the class by a "
                "number."
            )
        return [int(one) for one in names]

    # ------------------------------------------------------------------------------- exemplars

    @property
    def keeps_patches(self) -> bool:
        """Whether only some patches of an image are stored, and the network completes the rest."""
        memory = self.state.method.memory
        return memory is not None and isinstance(memory.codec, PartialCodec)

    def exemplar_bytes(self, label: Label) -> list[int]:
        """Bytes of each exemplar of a class, best first."""
        memory, number = self.state.method.memory, self.state.find(label)
        has_any = memory is not None and number in memory.labels
        return memory.exemplar_bytes(number) if memory is not None and has_any else []

    def picture(self, name: str, rank: int, kind: PictureKind) -> bytes:
        """An exemplar as a PNG.

        Raises:
            NotFoundError: There is no such class or exemplar.
        """
        label = self.find(name)
        num_stored = len(self.exemplar_bytes(label))
        if not 0 <= rank < num_stored:
            raise NotFoundError(f"class {name!r} has {num_stored:,} exemplars; ranks start at 0.")
        with self.recall_lock:
            kept = self.predictor.exemplars(label)
        pixels = kept.completed[rank] if kind == "completed" else kept.picture(rank)
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, format="PNG")
        return buffer.getvalue()

    # ----------------------------------------------------------------------------- predictions

    def predict(self, image: FramedImage, top: int) -> Prediction:
        """The most probable classes, best first, and whether the image is of any of them."""
        is_known = None
        with self.predict_lock, torch.inference_mode():
            if self.predictor.can_reject:
                rows, known = self.predictor.recognise([image])
                is_known = bool(known[0])
            else:
                rows = self.predictor.probabilities([image])
        guesses = [
            Guess(name=str(self.state.classes[index]), probability=float(rows[0, index]))
            for index in np.argsort(-rows[0], kind="stable")[:top]
        ]
        return Prediction(guesses=guesses, is_known=is_known)

    def score(self, images: list[FramedImage], names: list[str]) -> ScoredFolder:
        """Compare what images are taken for with what they are.

        Raises:
            InputError: A class is not known.
        """
        given = gather_labelled(images, self.as_labels(names))
        true = known_labels(self.state.classes, given, "the images")
        rows = []
        for first in range(0, len(images), _SCORED_AT_ONCE):
            with self.predict_lock:
                rows.append(self.predictor.probabilities(images[first : first + _SCORED_AT_ONCE]))
        return compare_labels(self.state.classes, given, true, np.concatenate(rows))


def read_version(path: Path) -> StoreVersion:
    """Read a store and predict with it twice: for what is built once, and for the time it takes.

    Raises:
        InputError: The store is missing, damaged, or of a newer version.
    """
    stamp = stamp_of(path)
    predictor = Predictor(read_store(path))
    # Convolutions of a single image are a fifth faster so.
    predictor.state.method.to(memory_format=torch.channels_last)  # pyright: ignore
    size = predictor.state.config.image_size
    image = FramedImage("a black image", np.zeros((size, size, 3), np.uint8))
    predictor.probabilities([image])
    began = time.perf_counter()
    predictor.probabilities([image])
    return StoreVersion(predictor, stamp, time.perf_counter() - began)


def stamp_of(path: Path) -> FileStamp:
    try:
        status = path.stat()
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_size, status.st_mtime_ns


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) <= 18
