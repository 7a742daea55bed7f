"""How a store does on images whose classes are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from remnant.errors import InputError
from remnant.learner.inputs import Label, RawInputs, gather_labelled
from remnant.learner.learner_state import LearnerState
from remnant.learner.predictor import Predictor
from remnant.learner.reliability import Reliability, measure_reliability
from remnant.learner.usable_images import name_of, read_readable


@dataclass(frozen=True)
class ScoredFolder:
    """How a store does on images whose classes are known."""

    classes: tuple[Label, ...]
    confusion: np.ndarray  # int64 [K, K]: images of class i that were predicted as class j
    files: list[tuple[str, Label, Label, float]]  # mistakes, surest first: file, true, taken, how
    places: list[int]  # of the mistakes among the images
    reliability: Reliability
    notes: tuple[str, ...] = ()  # about images that were left out

    @property
    def accuracy(self) -> float:
        """Percent of all images."""
        return 100 * float(np.trace(self.confusion) / self.confusion.sum())

    def class_rows(self) -> list[tuple[Label, int, float, str]]:
        """Of each class with images: name, images, percent correct, most frequent mistake."""
        rows = []
        for label, name in enumerate(self.classes):
            row = self.confusion[label]
            if total := int(row.sum()):
                wrong = np.where(np.arange(len(row)) == label, 0, row)
                worst = int(wrong.argmax())
                taken = f"{self.classes[worst]} ({wrong[worst]:,})" if wrong[worst] else ""
                rows.append((name, total, 100 * float(row[label]) / total, taken))
        return rows

    def confusions(self) -> list[tuple[Label, Label, int, int]]:
        """True class, predicted class, how many of how many images; most frequent first."""
        totals = self.confusion.sum(axis=1)
        wrong = self.confusion - np.diag(np.diag(self.confusion))
        order = np.argsort(-wrong, axis=None, kind="stable")
        pairs = (divmod(int(place), len(self.classes)) for place in order)
        return [
            (self.classes[true], self.classes[taken], int(wrong[true, taken]), int(totals[true]))
            for true, taken in pairs
            if wrong[true, taken] > 0
        ]

    def facts(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "accuracy": self.accuracy,
            "images": int(self.confusion.sum()),
            "calibration_error": self.reliability.error,
            "classes": [
                {"name": name, "images": count, "accuracy": share}
                for name, count, share, _ in self.class_rows()
            ],
            "confusion": self.confusion.tolist(),
            "mistakes": [
                {"file": file, "class": true, "predicted": taken, "probability": how}
                for file, true, taken, how in self.files
            ],
            "notes": list(self.notes),
        }


def score_folder(state: LearnerState, folder: Path) -> ScoredFolder:
    """Classify a folder of class folders and compare; what cannot be read is left out and named.

    Folders that are too large to be held in memory are not tried first: there, it is an error.

    Raises:
        InputError: The folder has a class that the store does not know, or of which no image can
            be read.
    """
    given = gather_labelled(folder, None)
    known_labels(state.classes, given, str(folder))  # before images are read
    found = read_readable(given, state.config.image_size)
    true = known_labels(state.classes, found.given, str(folder))
    shares = Predictor(state).probabilities_of(found.images)
    return replace(compare_labels(state.classes, found.given, true, shares), notes=found.notes)


def known_labels(classes: tuple[Label, ...], given: RawInputs, source: str) -> np.ndarray:
    """int64 [N]: the numbers of the classes of labelled images.

    Raises:
        InputError: One of the classes is not known; the message begins with `source`.
    """
    numbers = {name: label for label, name in enumerate(classes)}
    unknown = [name for name in given.classes if name not in numbers]
    if unknown:
        raise InputError(
            f"{source} must hold classes that the store knows; got {unknown[0]!r}. Leave it out."
        )
    return np.array([numbers[name] for name in given.labels or ()])


def compare_labels(
    classes: tuple[Label, ...], given: RawInputs, true: np.ndarray, shares: np.ndarray
) -> ScoredFolder:
    """What images are and what they were predicted as; probabilities float32 [N, K]."""
    best = shares.argmax(axis=1)
    confusion = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(confusion, (true, best), 1)
    sureness = shares[np.arange(len(best)), best]
    wrong = np.flatnonzero(true != best)
    places = wrong[np.argsort(-sureness[wrong], kind="stable")].tolist()
    mistakes = [
        (
            name_of(given.items[place], place),
            classes[int(true[place])],
            classes[int(best[place])],
            float(sureness[place]),
        )
        for place in places
    ]
    reliability = measure_reliability(shares, true)
    return ScoredFolder(classes, confusion, mistakes, places, reliability)
