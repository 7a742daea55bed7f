"""What can be done to a store beside teaching it: other budgets, other networks, comparisons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from remnant.errors import InputError
from remnant.learner.held_exemplars import still_stored
from remnant.learner.inputs import Label, RawInputs, gather_labelled
from remnant.learner.learner_state import LearnerParameters, LearnerState
from remnant.learner.predictor import Predictor
from remnant.learner.previous_store import keep_previous
from remnant.learner.reliability import Reliability, measure_reliability
from remnant.learner.store import read_store, write_store
from remnant.learner.update import run_update
from remnant.learner.usable_images import name_of
from remnant.learner.work_folder import only_updater
from remnant.memory import Memory

# Parameters that a rebuilt store takes over, unless others are given.
_KEPT_BY_REBUILD = ("budget", "seed", "accelerator", "threads", "quiet")


# ----------------------------------------------------------------------------------------- changes


def rebudget_store(path: str | Path, budget: str) -> LearnerState:
    """Give a store another budget; what does not fit goes, worst first.

    Exemplars that an earlier budget dropped do not come back.

    Raises:
        InputError: It has no memory, or the budget cannot hold one exemplar of each class.
    """

    def change(state: LearnerState) -> LearnerState:
        _memory_of(state).change_budget(budget)
        assert state.config.memory is not None, "a method with a memory has settings for it"
        memory = state.config.memory.model_copy(update={"budget": budget})
        return replace(
            state,
            config=state.config.model_copy(update={"memory": memory}),
            parameters=state.parameters.model_copy(update={"budget": budget}),
        )

    return _changed(path, change)


def thin_store(
    path: str | Path, name: Label, *, keep: int | None = None, remove: int | None = None
) -> LearnerState:
    """Keep the best exemplars of a class, or remove one by its number, from 1, as pages show it.

    Raises:
        InputError: There is no such class or exemplar, or not exactly one thing is asked for.
    """
    if (keep is None) == (remove is None):
        raise InputError("give either how many exemplars to keep or which one to remove.")

    def change(state: LearnerState) -> LearnerState:
        label, memory = state.find(name), _memory_of(state)
        if keep is not None:
            memory.thin_class(label, keep)
        elif remove is not None:
            count = memory.counts[label]
            if not 1 <= remove <= count:
                raise InputError(f"class {name!r} has exemplars 1 to {count}; got {remove}.")
            memory.remove_exemplar(label, remove - 1)
        return state

    return _changed(path, change)


def rebuild_store(path: str | Path, **parameters: Any) -> LearnerState:
    """Retrain a store from its own exemplars, with another encoder, method or size.

    No original image is needed. Exemplars are decoded and coded again, so that a little of their
    quality is lost, and whatever the budget dropped earlier is not seen.

    Raises:
        InputError: The store has no exemplars of some class, or a parameter cannot be used.
    """
    store = Path(path).resolve()
    with only_updater(store) as folder:
        before = read_store(store)
        stored = _memory_of(before).images()
        if stored is None or stored.is_known is not None:
            raise InputError(
                f"{store} cannot be rebuilt: its exemplars are parts of images, or there are none."
            )
        present = set(stored.labels.tolist())
        missing = [name for label, name in enumerate(before.classes) if label not in present]
        if missing:
            raise InputError(
                f"{store} cannot be rebuilt: class {missing[0]!r} has no exemplar. Forget it first."
            )
        kept = {name: getattr(before.parameters, name) for name in _KEPT_BY_REBUILD}
        given = LearnerParameters.of(kept | parameters)
        images = stored.images.read(torch.arange(len(stored))).numpy()
        names = [before.classes[label] for label in stored.labels.tolist()]
        state = run_update(None, given, images, names, None, folder)
        keep_previous(store)
        write_store(store, state)
    return state


def _changed(path: str | Path, change: Callable[[LearnerState], LearnerState]) -> LearnerState:
    store = Path(path).resolve()
    with only_updater(store):
        state = change(read_store(store))
        untrained = still_stored(state.method.memory, state.untrained)
        state = replace(state, origin=None, untrained=untrained)
        keep_previous(store)
        write_store(store, state)
    return state


def _memory_of(state: LearnerState) -> Memory:
    if state.method.memory is None:
        raise InputError(f"{state.config.method.name} keeps no exemplars.")
    return state.method.memory


# ----------------------------------------------------------------------------------------- figures


@dataclass(frozen=True)
class ScoredFolder:
    """How a store does on images whose classes are known."""

    classes: tuple[Label, ...]
    confusion: np.ndarray  # int64 [K, K]: images of class i that were predicted as class j
    files: list[tuple[str, Label, Label, float]]  # mistakes, surest first: file, true, taken, how
    places: list[int]  # of the mistakes among the images
    reliability: Reliability

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
        }


def score_folder(state: LearnerState, folder: Path) -> ScoredFolder:
    """Classify a folder of class folders and compare.

    Raises:
        InputError: The folder has a class that the store does not know.
    """
    given = gather_labelled(folder, None)
    true = known_labels(state.classes, given, str(folder))
    shares = Predictor(state).scores(given).softmax(dim=1).numpy()
    return compare_labels(state.classes, given, true, shares)


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


def compare_states(one: LearnerState, other: LearnerState) -> list[tuple[str, str, str]]:
    """What differs between two stores: what, in the first, in the second."""
    rows = [
        ("method", one.config.method.name, other.config.method.name),
        ("encoder", _encoder(one), _encoder(other)),
        ("image size", f"{one.config.image_size} px", f"{other.config.image_size} px"),
        ("budget", one.parameters.budget, other.parameters.budget),
        ("updates", str(len(one.history)), str(len(other.history))),
        ("classes", str(len(one.classes)), str(len(other.classes))),
    ]
    counts = [_exemplars(state) for state in (one, other)]
    for name in dict.fromkeys((*one.classes, *other.classes)):
        shown = [
            "not known" if name not in state.classes else f"{count[name]:,} exemplars"
            for state, count in zip((one, other), counts, strict=True)
        ]
        rows.append((f"class {name}", *shown))
    rows.append(("all that was learned", one.digest()[:12], other.digest()[:12]))
    return [row for row in rows if row[1] != row[2]]


def _exemplars(state: LearnerState) -> Counter[Label]:
    memory = state.method.memory
    if memory is None:
        return Counter()
    pairs = zip(memory.labels, memory.counts, strict=True)
    return Counter({state.classes[label]: count for label, count in pairs})


def _encoder(state: LearnerState) -> str:
    encoder = getattr(state.config.method, "encoder", None)
    return "none" if encoder is None else encoder.name
