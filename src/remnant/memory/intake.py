"""From candidates to exemplars: encoded, checked, with side data; stores nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

import numpy as np

from remnant import long_rows
from remnant.errors import InputError
from remnant.long_rows import ScratchFile
from remnant.memory.codecs.codec import Candidate, Codec, Exemplar
from remnant.memory.memory_file import StoredClass
from remnant.randomness import generator

ItemT = TypeVar("ItemT")


@dataclass(frozen=True)
class Intake:
    """How a memory takes images in; reads each when its exemplar is asked for, not before.

    What it draws depends on the seed and on the class and rank of an image, or on its position.
    """

    codec: Codec
    seed: int

    def encoded(
        self, label: int, candidates: Iterable[Candidate], first_rank: int = 0
    ) -> Iterator[Exemplar]:
        """The exemplars of images of class `label`, in order.

        Raises:
            InputError: An image is of another shape.
        """
        for rank, candidate in enumerate(candidates, start=first_rank):
            image = candidate.image
            if image.dtype != np.uint8 or image.shape != self.codec.image_shape:
                raise InputError(
                    f"the memory stores uint8 images of shape {self.codec.image_shape}; got "
                    f"{image.dtype} of shape {image.shape}."
                )
            rng = generator(self.seed, "patches", label, rank)
            exemplar = self.codec.encode(candidate, rng)
            self.codec.check(exemplar)
            yield replace(exemplar, side=candidate.side) if candidate.side else exemplar

    def of_class(
        self,
        label: int,
        name: str,
        candidates: Iterable[Candidate],
        side_bytes: int,
        first_rank: int = 0,
    ) -> Iterator[Exemplar]:
        """What `encoded` gives, if each has `side_bytes` of side data.

        Raises:
            InputError: An image is of another shape, or side data are of another length.
        """
        for exemplar in self.encoded(label, candidates, first_rank):
            if len(exemplar.side) != side_bytes:
                raise InputError(
                    f"exemplars of class {name!r} must have {side_bytes:,} bytes of side data, as "
                    f"long as those of one class are; got {len(exemplar.side):,}."
                )
            yield exemplar

    def more(
        self, label: int, stored: StoredClass, candidates: Iterable[Candidate]
    ) -> Iterator[Exemplar]:
        """The exemplars of more images of a class, each once, without those that are stored.

        Raises:
            InputError: As `of_class`.
        """
        first_rank = len(stored.exemplars)
        known = {one.digest() for one in stored.exemplars}  # payloads may lie in a file
        new = self.of_class(label, stored.name, candidates, stored.side_bytes, first_rank)
        for one in new:
            digest = one.digest()
            if digest not in known:
                known.add(digest)
                yield one

    def presented(
        self, images: Iterable[np.ndarray | Candidate], folder: Path | None
    ) -> Iterator[Exemplar]:
        """The exemplars of images of no class, in order.

        Payloads that are too many to be held go to a scratch file in `folder`; None: any.
        """
        rngs = (generator(self.seed, "present", index) for index in itertools.count())
        offered = (one if isinstance(one, Candidate) else Candidate(one) for one in images)
        return _held_or_filed(map(self.codec.encode, offered, rngs), folder)


def take_turns(first: Iterable[ItemT], second: Iterable[ItemT]) -> Iterator[ItemT]:
    """One of the first, one of the second, and so on; then what is left of the longer."""
    for pair in zip_longest(first, second):
        yield from (item for item in pair if item is not None)


def _held_or_filed(exemplars: Iterable[Exemplar], folder: Path | None) -> Iterator[Exemplar]:
    """The same exemplars one by one, from `HELD_BYTES` on with payloads in a scratch file."""
    scratch, num_bytes = None, 0
    for exemplar in exemplars:
        num_bytes += exemplar.payload_size
        if num_bytes > long_rows.HELD_BYTES:
            scratch = scratch or ScratchFile(folder)
            exemplar = exemplar.filed(scratch)
        yield exemplar
