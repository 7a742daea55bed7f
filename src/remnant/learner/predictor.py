"""A trained network in use, without a trainer: predictions for images and files, and exemplars."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remnant.data.decode import ENDINGS
from remnant.errors import InputError
from remnant.images import Images, ImageSet, patches_to_pixels
from remnant.learner.decoded_inputs import read
from remnant.learner.defaults import choose_training
from remnant.learner.inputs import Label, RawInputs, gather
from remnant.learner.learner_state import LearnerParameters, LearnerState
from remnant.methods import METHODS, Recognises, replayed_memory
from remnant.training.batches import Preprocessing
from remnant.training.processes import Processes
from remnant.training.reader import ViewReader

_FILES_AT_ONCE = 256  # so that memory use does not grow with the number of files


@dataclass(frozen=True)
class Exemplars:
    """The exemplars of one class, best first."""

    stored: np.ndarray  # uint8 [N, H, W, 3], unknown pixels in each image's mean colour
    is_known: np.ndarray | None  # bool [N, GH, GW], which patches are stored; None: all
    completed: np.ndarray  # uint8 [N, H, W, 3], as the network completes them for replay
    num_bytes: list[int]  # of each, as the budget counts them

    def picture(self, rank: int) -> np.ndarray:
        """One exemplar as RGBA, transparent where nothing is stored: uint8 [H, W, 4]."""
        image = self.stored[rank]
        alpha = np.full(image.shape[:2], 255, np.uint8)
        if self.is_known is not None:
            height, width = image.shape[:2]
            alpha = patches_to_pixels(self.is_known[rank] * np.uint8(255), (height, width))
        return np.dstack([np.where(alpha[..., None] > 0, image, 0), alpha])


def _finite(probabilities: np.ndarray) -> np.ndarray:
    """Raises InputError for a network whose numbers overflow."""
    if not np.isfinite(probabilities).all():
        raise InputError(
            "the network must give finite scores; its weights are too large. Restore the store "
            "from a copy."
        )
    return probabilities


class Predictor:
    """Applies the network of a state, on the device that `parameters` choose.

    Raises:
        InputError: The device does not exist.
    """

    def __init__(self, state: LearnerState, parameters: LearnerParameters | None = None) -> None:
        self.state = state
        config, processes = state.config, Processes(choose_training(parameters or state.parameters))
        processes.prepare(state.method)
        look = Preprocessing(config.augment, config.mean, config.std)
        self._reader = ViewReader(processes, look, config.seed)

    def scores(self, given: RawInputs) -> Tensor:
        """The method's scores, calibrated, float32 [N, K], of which a softmax is finite."""
        return self._scored(self._images(given))[0]

    def _scored(self, images: ImageSet) -> tuple[Tensor, np.ndarray]:
        """Calibrated scores and probabilities, both float32 [N, K]."""
        scores = self._reader.apply(self.state.method.predict, images)
        scores = scores / self.state.temperature
        return scores, _finite(scores.softmax(dim=1).numpy())

    def recognise(self, images: Any) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities float32 [N, K], and bool [N]: whether an image is of one of the classes.

        The limit is such that 19 of 20 held-out images are.

        Raises:
            InputError: The method holds no images out, so that there is no limit.
        """
        self.require_rejection()
        method, calibration = self.state.method, self.state.calibration
        if not isinstance(method, Recognises):
            assert calibration is not None, "it can be rejected by its scores"
            scores = self._reader.apply(method.predict, self._images(gather(images)))
            shares = (scores / calibration.temperature).softmax(dim=1).numpy()
            return _finite(shares), calibration.knows(scores).numpy()

        def both(views: Tensor) -> Tensor:
            scores, is_known = method.recognise(views)
            return torch.cat([scores.softmax(dim=1), is_known[:, None].float()], dim=1)

        found = self._reader.apply(both, self._images(gather(images))).numpy()
        return _finite(found[:, :-1]), found[:, -1] > 0

    @cached_property
    def can_reject(self) -> bool:
        """Whether the method can tell what it was never taught."""
        is_able = isinstance(self.state.method, Recognises)
        return is_able or self.state.calibration is not None

    def require_rejection(self) -> None:
        """Go on if the store can tell what it was never taught.

        Raises:
            InputError: It cannot.
        """
        if not self.can_reject:
            able = [name for name, one in METHODS.items() if hasattr(one, "recognise")]
            raise InputError(
                f"{self.state.config.method.name} cannot reject images of unknown classes; "
                f"{' and '.join(able)} can, and so can a method that trains if images were held "
                "back (no --test, 20 images of a class or more). Leave --reject out."
            )

    def _images(self, given: RawInputs) -> ImageSet:
        return _unlabelled(read(given, self.state.config.image_size))

    def probabilities(self, images: Any) -> np.ndarray:
        """float32 [N, K]: the softmax of the scores; images as in `Learner.partial_fit`."""
        return self._scored(self._images(gather(images)))[1]

    def probabilities_of(self, images: Images) -> np.ndarray:
        """The same for images that have been read."""
        return self._scored(_unlabelled(images))[1]

    def features(self, images: Any) -> np.ndarray:
        """float32 [N, D]; images as in `Learner.partial_fit`."""
        return self._reader.apply(self.state.method.features, self._images(gather(images))).numpy()

    def exemplars(self, name: Label) -> Exemplars:
        """The exemplars of a class, as stored and as completed for replay.

        Raises:
            InputError: There is no such class, or the method keeps no exemplars.
        """
        label, memory = self.state.find(name), self.state.method.memory
        if memory is None:
            raise InputError(f"{self.state.config.method.name} keeps no exemplars to show.")
        if label not in memory.labels:  # all were removed
            nothing = np.empty((0, *self.state.config.image_shape), np.uint8)
            return Exemplars(nothing, None, nothing, [])
        stored, completed = (images.of_class(label) for images in self._replay)
        return Exemplars(
            stored=_pixels(stored),
            is_known=None if stored.is_known is None else stored.is_known.numpy(),
            completed=_pixels(completed),
            num_bytes=memory.exemplar_bytes(label),
        )

    @cached_property
    def _replay(self) -> tuple[ImageSet, ImageSet]:
        """The exemplars of all classes, as stored and completed, which may take seconds."""
        method = self.state.method
        assert method.memory is not None, "only a method with a memory has exemplars"
        stored, completed = method.memory.images(), replayed_memory(method, self._reader)
        assert stored is not None, "only asked for a class that has exemplars"
        assert completed is not None, "what is stored can be completed"
        return stored, completed


def _unlabelled(pixels: Images) -> ImageSet:
    no_labels = torch.zeros(len(pixels), dtype=torch.int64)
    return ImageSet(pixels, no_labels, torch.arange(len(pixels)))


def _pixels(images: ImageSet) -> np.ndarray:
    return images.images.read(torch.arange(len(images))).numpy()


# -------------------------------------------------------------------------------------------- files


@dataclass(frozen=True)
class FilePrediction:
    """The most probable classes of one file, or why there are none."""

    file: Path
    top: tuple[tuple[Label, float], ...] = ()  # class and probability, best first
    error: str | None = None  # a sentence that names the file
    is_known: bool = True  # False: like none of the classes


def predict_files(
    predictor: Predictor, paths: Iterable[Path], num_best: int, *, rejects: bool = False
) -> Iterator[FilePrediction]:
    """Predictions in order; a file that cannot be read gets an error and affects no other.

    Args:
        paths: Files, and folders that are searched with all their sub-folders.
        num_best: Classes to give for each file.
        rejects: Say of each whether it is of one of the classes at all.
    """
    files = chain.from_iterable(map(_find, paths))
    while batch := list(islice(files, _FILES_AT_ONCE)):
        yield from _predict(predictor, batch, num_best, rejects)


def _find(path: Path) -> Iterator[Path]:
    """The images of a folder, or the folder if it has none; links to folders are not followed."""
    has_any = False
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.lower().endswith(ENDINGS) and not name.startswith("."):
                has_any = True
                yield Path(folder, name)
    if not has_any:
        yield path


def _predict(
    predictor: Predictor, files: list[Path], num_best: int, rejects: bool
) -> Iterator[FilePrediction]:
    is_known = np.ones(len(files), dtype=bool)
    try:
        if rejects:
            rows, is_known = predictor.recognise(files)
        else:
            rows = predictor.probabilities(files)
    except InputError as error:
        if len(files) > 1:  # one of them cannot be read, so each is predicted on its own
            for file in files:
                yield from _predict(predictor, [file], num_best, rejects)
            return
        is_empty = files[0].is_dir()
        message = f"{files[0]} holds no images ({', '.join(ENDINGS)})." if is_empty else str(error)
        yield FilePrediction(files[0], error=message)
        return
    for file, row, known in zip(files, rows, is_known.tolist(), strict=True):
        ranks = np.argsort(-row, kind="stable")[:num_best].tolist()
        top = tuple((predictor.state.classes[rank], float(row[rank])) for rank in ranks)
        yield FilePrediction(file, top, is_known=known)
