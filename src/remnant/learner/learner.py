"""The practitioner's class: scikit-learn's interface to methods, memory and training."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags

from remnant.errors import InputError
from remnant.learner.from_run import state_of_run
from remnant.learner.inputs import Label, gather, gather_labelled
from remnant.learner.learner_state import (
    LearnerConfig,
    LearnerParameters,
    LearnerState,
    forget_class,
)
from remnant.learner.onnx_export import export
from remnant.learner.predictor import Exemplars, Predictor
from remnant.learner.previous_store import dropping_previous
from remnant.learner.scratch_folder import ScratchFolder
from remnant.learner.store import read_store, write_store
from remnant.learner.update import run_update
from remnant.learner.work_folder import only_updater
from remnant.memory import Memory
from remnant.methods import Method
from remnant.phases import Watcher


class NothingLearnedError(InputError, NotFittedError):
    """A learner was used before it learned anything."""


class Learner(ClassifierMixin, BaseEstimator):
    """An image classifier that learns class after class and stores only a little of its images.

    Sizes, epochs and batches are chosen from the images of the first call and printed on standard
    error; a parameter given here is used as it is. The first call fixes `budget`, `method`,
    `encoder`, `image_size`, `codec`, `width`, `augment`, `options` and `seed`; the others may be
    changed with `set_params` between two calls. A single class can be learned, and is then always
    predicted; so can a class of one image.

    Args:
        budget: Memory for exemplars, for each class or in total: "1MiB/class", "20MiB".
        method: A name from `remnant list methods`, or a subclass of `remnant.methods.Method`.
        encoder: A pretrained network that turns images into features: "efficientnet-lite0", a path
            that ends in .safetensors or .onnx, or "hf:ORG/NAME". Chosen: the first of these for
            images of 64 px or more, if its package is installed. "none": train from scratch.
        image_size: Side in pixels to which images are resized.
        codec: How exemplars are stored: a name from `remnant list codecs`, or its settings.
        epochs: Passes over new images and exemplars in each update.
        batch_size: Images per training step.
        width: Of the network, for methods whose network has one.
        learning_rate: Replaces that of the method's default optimiser.
        augment: How training images are varied. Chosen: "crop-flip"; use "crop" for digits, text
            and other images that must not be mirrored.
        options: Any other setting, with the keys of `remnant run --set`:
            `{"method.distill_weight": 2.0, "training.checkpoint_every_steps": 50}`.
        seed: Of all random numbers.
        accelerator: auto, cpu, cuda or mps.
        threads: Processor threads; None: all.
        minutes: Train for about so long by the clock instead of `epochs`, which are then added or
            dropped as the speed changes.
        guard: Refuse an update, and change nothing, if an old class falls by more points than this.
        strict: Refuse all images if one cannot be read; otherwise such images are left out and
            named on standard error.
        quiet: Print nothing on standard error.

    Attributes:
        classes_: Names or numbers of the classes in the order learned; sorted within an update.
        history_: One dict per update: `when` (UTC date), `classes` (new ones), `known_classes`
            (that got more images), `images`, `epochs`, `seconds` (of the call that finished it),
            `memory_bytes`, and what was measured: `accuracy` (percent, None if nothing was),
            `measured_on`, `measured_images`, `class_accuracy` and `class_accuracy_before` (pairs of
            class and percent). Forgetting a class adds an entry with `when` and
            `forgotten_classes`, and removes its name from all others.
        settings_: What the first update fixed: image size, mean, std, method, memory, augment.
        image_size_: Side of the images that the network sees, in pixels.
        memory_: The exemplars, or None for a method that keeps none.
        method_: The network, with `predict` and `features`.
        state_: All of these together, as a store holds them.
    """

    def __init__(
        self,
        budget: str = "1MiB/class",
        *,
        method: str | type[Method[Any]] | None = None,
        encoder: str | None = None,
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
        minutes: float | None = None,
        guard: float | None = None,
        strict: bool = False,
        quiet: bool = False,
    ) -> None:
        self.budget = budget
        self.method = method
        self.encoder = encoder
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
        self.minutes = minutes
        self.guard = guard
        self.strict = strict
        self.quiet = quiet

    # -------------------------------------------------------------------------------- learning

    def fit(
        self,
        images: Any,
        labels: Any = None,
        *,
        test: Any = None,
        watchers: tuple[Watcher, ...] = (),
    ) -> Self:
        """`partial_fit` from the beginning: when it succeeds, all that was known is replaced.

        Raises:
            InputError: As `partial_fit`.
        """
        return self._update(None, images, labels, test, watchers)

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
        interrupted, the learner is unchanged, and the same call continues from its last checkpoint.

        Args:
            images: A folder whose sub-folders are classes; or an array or tensor [N, H, W],
                [N, H, W, C] or [N, C, H, W], of bytes or of floats from 0 to 1; or a list of
                arrays [H, W(, C)], PIL images and paths.
            labels: One text or whole number per image; None for a folder.
            test: Images to measure the accuracy with afterwards: a folder, or (images, labels).
            watchers: Called at every step, `on_step(StepReport)`; an exception stops the update.

        Raises:
            InputError: The input cannot be used; the learner is unchanged.
        """
        return self._update(self._state, images, labels, test, watchers)

    def _update(
        self,
        before: LearnerState | None,
        images: Any,
        labels: Any,
        test: Any,
        watchers: tuple[Watcher, ...],
    ) -> Self:
        folder = self._make_work_folder()
        state = run_update(before, self._parameters(), images, labels, test, folder, watchers)
        self._set_state(replace(state, method=state.copy_method()))
        return self

    # ------------------------------------------------------------------------------ predicting

    def predict(self, images: Any) -> np.ndarray:
        """The class of every image, as in `classes_`; images as in `partial_fit`."""
        best = self._get_predictor().scores(gather(images)).argmax(dim=1)
        return self.classes_[best.numpy()]

    def predict_proba(self, images: Any) -> np.ndarray:
        """float32 [N, K]: the softmax of the method's scores, columns as in `classes_`.

        They are calibrated on images that were held out, where there were any; else the order is
        right, but the numbers are no probabilities for methods whose scores are not logits (icarl:
        cosines; dytox: sigmoids).
        """
        return self._get_predictor().probabilities(images)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The fraction of images that are classified correctly; y is None for a folder."""
        given = gather_labelled(X, y)
        _check_kind(given.labels or (), self.state_.classes)
        best = self._get_predictor().scores(given).argmax(dim=1).numpy()
        found = self.classes_[best].tolist()
        is_right = [one == label for one, label in zip(found, given.labels or (), strict=True)]
        return float(np.average(is_right, weights=sample_weight))

    def features(self, images: Any) -> np.ndarray:
        """float32 [N, D]: the features of the network, for classifiers and searches of your own."""
        return self._get_predictor().features(images)

    def remembered(self, name: Label) -> Exemplars:
        """The exemplars of a class, as stored and as completed for replay.

        Raises:
            InputError: There is no such class, or the method keeps no exemplars.
        """
        return self._get_predictor().exemplars(name)

    # ----------------------------------------------------------------------------- what is known

    @property
    def state_(self) -> LearnerState:
        if self._state is None:
            raise NothingLearnedError("the learner knows nothing yet. Call partial_fit first.")
        return self._state

    @property
    def classes_(self) -> np.ndarray:
        return np.array(self.state_.classes)

    @property
    def history_(self) -> list[dict[str, Any]]:
        return [dict(entry) for entry in self.state_.history]

    @property
    def settings_(self) -> LearnerConfig:
        return self.state_.config

    @property
    def image_size_(self) -> int:
        return self.state_.config.image_size

    @property
    def method_(self) -> Method[Any]:
        return self.state_.method

    @property
    def memory_(self) -> Memory | None:
        return self.state_.method.memory

    def digest(self) -> str:
        """SHA-256 of all that was learned, without dates and durations."""
        return self.state_.digest()

    def forget(self, name: Label) -> str:
        """Remove a class: its exemplars, its row of the classifier, its name.

        This cannot undo that the other weights were trained on its images too. A file saved
        earlier still contains the class.

        Returns:
            A message for the user that says so.

        Raises:
            InputError: There is no such class, no other, or the method cannot remove a class.
        """
        state, message = forget_class(self.state_, name)
        self._set_state(state)
        return message

    # ----------------------------------------------------------------------------------- files

    def save(self, path: str | Path) -> None:
        """Write a store, as a whole or not at all; `remnant undo` cannot undo it.

        Raises:
            InputError: Another process is updating it.
        """
        state, store = self.state_, Path(path).resolve()
        with only_updater(store), dropping_previous(store):
            write_store(store, state)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a store.

        Raises:
            InputError: It is missing, damaged, or of a newer version.
        """
        return cls._from_state(read_store(Path(path)))

    @classmethod
    def from_run(cls, folder: str | Path) -> Self:
        """A learner that continues from a finished run, with the schedule of the run.

        Raises:
            InputError: The folder is not a finished run.
        """
        return cls._from_state(state_of_run(Path(folder)))

    def export(self, path: str | Path, *, takes_floats: bool = False) -> None:
        """Write an ONNX model; see `remnant.learner.onnx_export`."""
        export(self.state_, Path(path), takes_floats=takes_floats)

    # --------------------------------------------------------------------------------- private

    _state: LearnerState | None = None
    _predictor: Predictor | None = None
    _scratch: ScratchFolder | None = None

    def __sklearn_is_fitted__(self) -> bool:
        return self._state is not None

    def __sklearn_tags__(self) -> Tags:
        """It takes images: scikit-learn's checks then leave out those that hand over tables."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = False, True
        return tags

    @classmethod
    def _from_state(cls, state: LearnerState) -> Self:
        learner = cls(**state.parameters.model_dump())
        learner._set_state(state)
        return learner

    def _set_state(self, state: LearnerState) -> None:
        self._state, self._predictor = state, None
        if self._scratch is not None:
            self._scratch.remove()
            self._scratch = None

    def _parameters(self) -> LearnerParameters:
        return LearnerParameters.of(self.get_params(deep=False))

    def _get_predictor(self) -> Predictor:
        if self._predictor is None:
            self._predictor = Predictor(self.state_, self._parameters())
        return self._predictor

    def _make_work_folder(self) -> Path:
        """For the checkpoints of a learner without a file; deleted with the learner."""
        if self._scratch is None or not self._scratch.path.is_dir():
            self._scratch = ScratchFolder()
            weakref.finalize(self, self._scratch.remove)
        return self._scratch.path


def _check_kind(labels: Sequence[Label], classes: Sequence[Label]) -> None:
    """Refuse labels that cannot be equal to a class."""
    is_text = isinstance(classes[0], str)
    if any(isinstance(label, str) != is_text for label in labels):
        kinds, remedy = ("whole numbers", "text"), "labels.astype(str)"
        if not is_text:
            kinds, remedy = ("text", "whole numbers"), "labels.astype(int)"
        raise InputError(
            f"labels must be {kinds[1]}, as the classes of the learner are; got {kinds[0]}. "
            f"Convert them, as with {remedy}."
        )
