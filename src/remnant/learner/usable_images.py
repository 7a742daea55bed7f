"""The images of an update that can be used, and what a user should know about the others."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from remnant.data.decode import ENDINGS
from remnant.errors import InputError, amount
from remnant.images import ArrayImages, Images
from remnant.learner.decoded_inputs import read, try_each
from remnant.learner.inputs import RawImage, RawInputs

_NAMED = 5  # files of a kind; of more, only the number is told
_LOPSIDED = 10  # times as many images in the largest class as in the smallest


@dataclass(frozen=True)
class UsableImages:
    """Images of one size with their labels, and sentences about what was found."""

    given: RawInputs
    images: Images
    notes: tuple[str, ...]


def read_usable(given: RawInputs, size: int, *, is_strict: bool) -> UsableImages:
    """Every image that can be read to learn from it, with notes on copies and sizes of classes.

    Args:
        given: With labels.
        size: Side in pixels.
        is_strict: Refuse all images if one of them cannot be read.

    Raises:
        InputError: No image of some class can be read, or one cannot and `is_strict`.
    """
    found = read_readable(given, size, is_strict=is_strict)
    return replace(found, notes=(*found.notes, *_about(found.given, found.images)))


def read_readable(given: RawInputs, size: int, *, is_strict: bool = False) -> UsableImages:
    """Every image that can be read; a file that cannot is named and left out.

    Raises:
        InputError: As `read_usable`.
    """
    if is_strict:
        images, broken = read(given, size), {}
    else:
        images, broken = try_each(given, size)
    notes = []
    if given.skipped:
        endings = ", ".join(ENDINGS)
        notes.append(
            f"{_count(len(given.skipped), 'item')} skipped (sub-folders, and names that do not "
            f"end in {endings}): {_list([str(path) for path in given.skipped])}."
        )
    if broken:
        notes.append(tell_unreadable([name_of(given.items[index], index) for index in broken]))
        given = _without(given, set(broken))
    return UsableImages(given, images, tuple(notes))


def shared_with(given: RawInputs, images: Images, test: RawInputs, tested: Images) -> list[str]:
    """A sentence if test images are among the training images."""
    trained = set(_digests(images))
    same = [
        name_of(test.items[index], index)
        for index, digest in enumerate(_digests(tested))
        if digest in trained
    ]
    if not same:
        return []
    return [
        f"{_count(len(same), 'test image')} also among the training images, which makes the "
        f"accuracy too high: {_list(same)}."
    ]


def _about(given: RawInputs, images: Images) -> list[str]:
    """Sentences about copies and about classes of very different sizes."""
    labels, notes = given.labels or [], []
    first: dict[bytes, int] = {}
    pairs, num_copies = [], 0
    for index, digest in enumerate(_digests(images)):
        before = first.setdefault(digest, index)
        if before != index and labels[before] != labels[index]:
            names = (name_of(given.items[place], place) for place in (before, index))
            pairs.append(" and ".join(names))
        elif before != index:
            num_copies += 1
    if pairs:
        notes.append(f"the same picture is in two classes: {_list(pairs)}.")
    if num_copies:
        notes.append(f"{_count(num_copies, 'image')} found more than once in the same class.")
    counts = Counter(labels)
    largest, smallest = counts.most_common()[0], counts.most_common()[-1]
    if largest[1] >= _LOPSIDED * smallest[1]:
        notes.append(
            f"class {largest[0]!r} has {largest[1]:,} images and class {smallest[0]!r} only "
            f"{smallest[1]:,}; small classes are learned less well."
        )
    return notes


def tell_unreadable(names: Sequence[str]) -> str:
    """A sentence about images that are left out."""
    return f"{_count(len(names), 'unreadable image')} left out: {_list(names)}."


def name_of(item: RawImage, index: int) -> str:
    """How to call an image of the input."""
    if isinstance(item, Path):
        return str(item)
    return getattr(item, "name", None) or f"image {index}"


def _without(given: RawInputs, left_out: set[int]) -> RawInputs:
    kept = [index for index in range(len(given)) if index not in left_out]
    labels = given.labels or []
    remaining = [labels[index] for index in kept]
    empty = sorted(str(label) for label in set(labels) - set(remaining))
    if empty:
        raise InputError(
            f"no image of class {empty[0]!r} can be read. Replace its images, or leave it out."
        )
    return replace(given, items=[given.items[index] for index in kept], labels=remaining)


def _digests(images: Images) -> list[bytes]:
    """One for each image held in memory; files that are not are not compared."""
    if not isinstance(images, ArrayImages):
        return []
    array: np.ndarray = images.array.numpy()
    return [hashlib.sha256(image.tobytes()).digest() for image in array]


def _count(number: int, what: str) -> str:
    return f"{amount(number, what)} {'is' if number == 1 else 'are'}"


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED:,} more" if len(names) > _NAMED else shown
