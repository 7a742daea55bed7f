"""The practitioner's class: scikit-learn's verbs over the methods, the memory and the trainer."""

from __future__ import annotations

import inspect
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from torch import Tensor

from remnant.errors import InputError
from remnant.images import ImageSet
from remnant.learner.defaults import LearnerSettings, training_of
from remnant.learner.from_run import read_run
from remnant.learner.inputs import Given, Label, gather, gather_labelled, read
from remnant.learner.learner_state import Knowledge, forget
from remnant.learner.lessons import plain
from remnant.learner.onnx_export import export as write_onnx
from remnant.learner.store import only_updater, read_store, write_store
from remnant.learner.updates import build_trainer, update
from remnant.memory import Memory
from remnant.methods import Method, replayed_memory
from remnant.training.trainer import Trainer, Watcher


class NothingLearnedError(InputError, NotFittedError):
    """A learner was asked before it was taught."""


@dataclass(frozen=True)
class Remembered:
    """What is kept of one class, best first."""

    stored: np.ndarray  # uint8 [N, H, W, 3], unknown pixels in each image's mean colour
    is_known: np.ndarray | None  # bool [N, GH, GW], which patches are stored; None: all
    completed: np.ndarray  # uint8 [N, H, W, 3], as the network completes them for replay
    num_bytes: list[int]  # what each counts in the budget

    def picture(self, rank: int) -> np.ndarray:
        """One exemplar as RGBA, transparent where nothing is stored: uint8 [H, W, 4]."""
        image = self.stored[rank]
        alpha = np.full(image.shape[:2], 255, np.uint8)
        if self.is_known is not None:
            known = self.is_known[rank].astype(np.uint8)
            rows, columns = (alpha.shape[axis] // known.shape[axis] for axis in (0, 1))
            alpha = 255 * np.kron(known, np.ones((rows, columns), np.uint8))
        return np.dstack([np.where(alpha[..., None] > 0, image, 0), alpha])


class Learner(ClassifierMixin, BaseEstimator):
    """An image classifier that is taught class after class and keeps little of what it saw.

    Sizes, epochs and batches are chosen from the images of the first call and told on standard
    error; whatever is given here is taken as it is. The first call fixes `budget`, `method`,
    `image_size`, `codec`, `width`, `augment`, `options` and `seed`; the others may be changed with
    `set_params` between two calls. One class alone can be learned, and is then always the answer;
    so can a class of one image.

    Args:
        budget: Bytes of memory, for each class or in all: "60KiB/class", "2MiB".
        method: A name of `remnant list methods`.
        image_size: Side in pixels to which images are brought.
        codec: How exemplars are stored: a name of `remnant list codecs`, or its settings.
        epochs: Passes over new images and exemplars in each update.
        batch_size: Images of a step.
        width: Of the network, for methods that have one.
        learning_rate: Of the optimiser that the method's best options name.
        augment: How images vary in training. Chosen: "crop-flip"; take "crop" for digits, text
            and whatever else must not be mirrored.
        options: Any other setting, with the keys of `remnant run --set`:
            `{"method.distill_weight": 2.0, "training.checkpoint_every_steps": 50}`.
        seed: Of everything random.
        accelerator: auto, cpu, cuda or mps.
        threads: Of the processor; None: all.
        quiet: Nothing is told on standard error.

    Attributes:
        classes_: Names or numbers of the classes, in order of arrival; sorted within an update.
        history_: One dict per update: `when` (UTC date), `classes` (new ones), `known_classes`
            (that got more images), `images`, `epochs`, `seconds` (of the call that ended it),
            `accuracy` (percent, None without a test set), `memory_bytes`. Forgetting a class adds
            `when` and `forgotten_classes`, and takes its name out of all others.
        settings_: What the first update fixed: image size, mean, std, method, memory, augment.
        image_size_: Side of the images that the network sees, in pixels.
        memory_: The exemplars, or None for a method that keeps none.
        method_: The network, with `predict` and `features`.
    """

    classes_: np.ndarray
    history_: list[dict[str, Any]]
    settings_: LearnerSettings
    image_size_: int
    memory_: Memory | None
    method_: Method[Any]

    def __init__(
        self,
        budget: str = "60KiB/class",
        *,
        method: str = "bimae",
        image_size: int | None = None,
        codec: str | Mapping[str, Any] | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        width: int | None = None,
        learning_rate: float | None = None,
        augment: str | None = None,
        options: Mapping[str, Any] | None = None,
        seed: int = 0,
        accelerator: str = "auto",
        threads: int | None = None,
        quiet: bool = False,
    ) -> None:
        self.budget = budget
        self.method = method
        self.image_size = image_size
        self.codec = codec
        self.epochs = epochs
        self.batch_size = batch_size
        self.width = width
        self.learning_rate = learning_rate
        self.augment = augment
        self.options = options
        self.seed = seed
        self.accelerator = accelerator
        self.threads = threads
        self.quiet = quiet

    # -------------------------------------------------------------------------------- teaching

    def fit(
        self,
        images: Any,
        labels: Any = None,
        *,
        test: Any = None,
        watchers: tuple[Watcher, ...] = (),
    ) -> Self:
        """`partial_fit` of a learner that knows nothing: whatever it knew is given up at the end.

        Raises:
            InputError: As `partial_fit`.
        """
        return self._teach(None, images, labels, test, watchers)

    def partial_fit(
        self,
        images: Any,
        labels: Any = None,
        *,
        test: Any = None,
        watchers: tuple[Watcher, ...] = (),
    ) -> Self:
        """Learn new classes, more images of known ones, or both, without forgetting the others.

        Images of other sizes are resized and cropped to a square of `image_size_`. If the call is
        interrupted, the learner is as it was, and the same call goes on from its last checkpoint.

        Args:
            images: A folder whose sub-folders are classes; or an array or tensor [N, H, W],
                [N, H, W, C] or [N, C, H, W], of bytes or of floats from 0 to 1; or a list of
                arrays [H, W(, C)], PIL images and paths.
            labels: One text or whole number per image; None for a folder.
            test: Images to measure the accuracy with afterwards: a folder, or (images, labels).
            watchers: Told of every step, `on_step(StepReport)`; what one raises stops the update.

        Raises:
            InputError: Something given cannot be used; the learner is as it was.
        """
        return self._teach(self._knowledge, images, labels, test, watchers)

    def _teach(
        self,
        before: Knowledge | None,
        images: Any,
        labels: Any,
        test: Any,
        watchers: tuple[Watcher, ...],
    ) -> Self:
        parameters, work = self.get_params(deep=False), self._work_folder()
        self._take(update(before, parameters, images, labels, test, work, watchers))
        self._clear_work()
        return self

    # ---------------------------------------------------------------------------------- asking

    def predict(self, images: Any) -> np.ndarray:
        """The class of every image, as in `classes_`; images as in `partial_fit`."""
        best = self._scores(gather(images)).argmax(dim=1)
        return self.classes_[best.numpy()]

    def predict_proba(self, images: Any) -> np.ndarray:
        """float32 [N, K]: the softmax of the method's scores, columns as in `classes_`.

        Of methods whose scores are no logits (icarl: cosines; dytox: sigmoids) the order is
        right, but the numbers are no probabilities to rely on.
        """
        return self._scores(gather(images)).softmax(dim=1).numpy()

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of images, 0 to 1, that get their own label; y is None for a folder."""
        given = gather_labelled(X, y)
        best = self._scores(given).argmax(dim=1).numpy()
        found = self.classes_[best].tolist()
        is_right = [one == label for one, label in zip(found, given.labels or (), strict=True)]
        return float(np.average(is_right, weights=sample_weight))

    def remembered(self, name: Label) -> Remembered:
        """What is kept of a class: as stored, and as completed for replay.

        Raises:
            InputError: There is no such class, or the method keeps nothing.
        """
        label = self._known().find(name)
        if self.memory_ is None:
            raise InputError(f"{self.settings_.method.name} keeps no exemplars.")
        if self._completed is None:
            reader = self._asked().reader
            self._completed = self.memory_.images(), replayed_memory(self.method_, reader)
        if label not in self.memory_.labels:  # all its exemplars were taken out by hand
            nothing = np.empty((0, *self.settings_.image_shape), np.uint8)
            return Remembered(nothing, None, nothing, [])
        stored, completed = (one.of_class(label) for one in self._completed if one is not None)
        return Remembered(
            stored=_pixels(stored),
            is_known=None if stored.is_known is None else stored.is_known.numpy(),
            completed=_pixels(completed),
            num_bytes=self.memory_.exemplar_bytes(label),
        )

    def digest(self) -> str:
        """SHA-256 of all that was learned, but for dates and durations."""
        return self._known().digest()

    # -------------------------------------------------------------------------------- changing

    def forget(self, name: Label) -> str:
        """Remove a class: its exemplars, its row of the classifier, its name.

        What cannot be undone: the other weights were formed with its images too. A file saved
        before still holds the class.

        Returns:
            That, in a sentence or two, for people.

        Raises:
            InputError: There is no such class, no other, or the method cannot cut a class out.
        """
        before = self._known()
        after = forget(before, name)
        num_exemplars = _count(before.method.memory) - _count(after.method.memory)
        self._take(after)
        self._clear_work()
        return (
            f"{name!r} is forgotten: its {num_exemplars:,} exemplars, its row of the classifier "
            "and its name are gone. The other weights were formed with its images too, which "
            "cannot be undone; stores and exports written before still hold it."
        )

    # ----------------------------------------------------------------------------------- files

    def save(self, path: str | Path) -> None:
        """Write a store, whole or not at all.

        Raises:
            InputError: Another process is updating it.
        """
        knowledge = self._known()
        store = Path(path).resolve()
        with only_updater(store):
            write_store(store, knowledge)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a store.

        Raises:
            InputError: It is missing, damaged, or of a newer version.
        """
        return cls._of(read_store(Path(path)))

    @classmethod
    def from_run(cls, folder: str | Path) -> Self:
        """What a finished run has learned; its schedule stands for further updates.

        Raises:
            InputError: The folder is no finished run.
        """
        return cls._of(read_run(Path(folder)))

    def export(self, path: str | Path, *, takes_floats: bool = False) -> None:
        """Write an ONNX model; see `remnant.learner.onnx_export`."""
        write_onnx(self, Path(path), takes_floats=takes_floats)

    # --------------------------------------------------------------------------------- private

    _knowledge: Knowledge | None = None
    _trainer: Trainer | None = None
    _completed: tuple[ImageSet | None, ImageSet | None] | None = None
    _work: Path | None = None

    @classmethod
    def _of(cls, knowledge: Knowledge) -> Self:
        known = inspect.signature(cls).parameters
        given = {name: value for name, value in knowledge.parameters.items() if name in known}
        learner = cls(**given)
        learner._take(knowledge)
        return learner

    def _take(self, knowledge: Knowledge) -> None:
        self._knowledge, self._trainer, self._completed = knowledge, None, None
        self.classes_ = np.array(knowledge.classes)
        self.history_ = [dict(one) for one in knowledge.history]
        self.settings_ = knowledge.settings
        self.image_size_ = knowledge.settings.image_size
        self.method_ = knowledge.method
        self.memory_ = knowledge.method.memory

    def _known(self) -> Knowledge:
        if self._knowledge is None:
            raise NothingLearnedError("the learner knows nothing yet. Call partial_fit first.")
        return self._knowledge

    def _asked(self) -> Trainer:
        """What runs the network, where it runs."""
        if self._trainer is None:
            knowledge = self._known()
            training = training_of(plain(self.get_params(deep=False)))
            self._trainer = build_trainer(knowledge.settings, training)
            self._trainer.processes.prepare(knowledge.method)
        return self._trainer

    def _scores(self, given: Given) -> Tensor:
        pixels = read(given, self._known().settings.image_size)
        nobody_knows = torch.zeros(len(pixels), dtype=torch.int64)
        images = ImageSet(pixels, nobody_knows, torch.arange(len(pixels)))
        return self._asked().reader.apply(self.method_.predict, images)

    def _work_folder(self) -> Path:
        """For the checkpoints of a learner that has no file; gone with the learner."""
        if self._work is None or not self._work.is_dir():
            self._work = Path(tempfile.mkdtemp(prefix="remnant-"))
            weakref.finalize(self, shutil.rmtree, self._work, ignore_errors=True)
        return self._work

    def _clear_work(self) -> None:
        if self._work is not None:
            shutil.rmtree(self._work, ignore_errors=True)


def _count(memory: Memory | None) -> int:
    return 0 if memory is None else sum(memory.counts)


def _pixels(images: ImageSet) -> np.ndarray:
    return images.images.read(torch.arange(len(images))).numpy()
