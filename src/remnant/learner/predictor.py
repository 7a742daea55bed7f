"""What a learner makes of files, one by one: one that cannot be read spoils no other's answer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from remnant.data.decode import ENDINGS
from remnant.errors import InputError
from remnant.learner.inputs import Label

if TYPE_CHECKING:
    from remnant.learner.learner import Learner

_AT_ONCE = 256  # files, so that memory stays flat however many there are


@dataclass(frozen=True)
class Answer:
    """The best classes for one file, or why there are none."""

    file: Path
    top: tuple[tuple[Label, float], ...] = ()  # class and probability, best first
    reason: str | None = None  # a sentence that names the file


def answer_files(learner: Learner, places: Iterable[Path], num_best: int) -> Iterator[Answer]:
    """Ask about files and about all images in folders, in order; what fails is answered too.

    Args:
        learner: Has been taught.
        places: Files, and folders that are searched to the bottom.
        num_best: Classes to name for each file.
    """
    for some in _split(chain.from_iterable(map(_find, places))):
        yield from _answer(learner, some, num_best)


def _split(found: Iterable[Answer]) -> Iterator[list[Answer]]:
    some: list[Answer] = []
    for one in found:
        some.append(one)
        if len(some) == _AT_ONCE:
            yield some
            some = []
    yield some


def _find(place: Path) -> Iterator[Answer]:
    """Files that are yet to be answered; links to folders are not followed."""
    if not place.is_dir():
        yield Answer(place)
        return
    has_any = False
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.lower().endswith(ENDINGS) and not name.startswith("."):
                has_any = True
                yield Answer(Path(folder, name))
    if not has_any:
        yield Answer(place, reason=f"{place} holds no images ({', '.join(ENDINGS)}).")


def _answer(learner: Learner, asked: list[Answer], num_best: int) -> Iterator[Answer]:
    files = [one.file for one in asked if one.reason is None]
    try:
        rows = iter(learner.predict_proba(files) if files else ())
    except InputError:  # one of them cannot be read, so each is asked about alone
        for one in asked:
            yield one if one.reason is not None else _answer_alone(learner, one.file, num_best)
        return
    for one in asked:
        is_failed = one.reason is not None
        yield one if is_failed else _best(learner, one.file, next(rows), num_best)


def _answer_alone(learner: Learner, file: Path, num_best: int) -> Answer:
    try:
        (row,) = learner.predict_proba([file])
    except InputError as error:
        return Answer(file, reason=str(error))
    return _best(learner, file, row, num_best)


def _best(learner: Learner, file: Path, row: np.ndarray, num_best: int) -> Answer:
    ranks = np.argsort(-row, kind="stable")[:num_best]
    names = learner.classes_[ranks].tolist()
    return Answer(file, tuple(zip(names, row[ranks].tolist(), strict=True)))
