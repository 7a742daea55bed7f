"""The replay memory: the only code that knows the budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from remnant.contracts import ImageSet, InputError, generator
from remnant.files import Arrays, read_archive, write_archive
from remnant.memory.archive import (
    KIND,
    VERSION,
    ArchiveHeader,
    StoredClass,
    digest_of,
    itemise,
    pack,
    unpack,
)
from remnant.memory.budget import MemoryConfig, parse_budget
from remnant.memory.codecs import build_codec
from remnant.memory.decoding import decode_classes
from remnant.memory.exemplars import Exemplar


class Memory:
    """Exemplars of the classes seen, grouped by class, best first, within a byte budget.

    Raises:
        InputError: The budget cannot hold one exemplar, or the codec does not suit the images.
    """

    def __init__(
        self,
        config: MemoryConfig,
        image_shape: tuple[int, int, int],
        seed: int,
        num_classes: int = 1,  # that will share it, as far as is known
    ) -> None:
        self.config = config
        self.image_shape = image_shape
        self.seed = seed
        self.codec = build_codec(config.codec, image_shape)
        self.budget = parse_budget(config.budget, self.codec.image_bytes)
        self.num_seen_classes = 0  # never less than the classes stored
        self._classes: dict[int, StoredClass] = {}
        self._require_room(num_classes)

    # ------------------------------------------------------------------------------------- sizes

    @property
    def labels(self) -> list[int]:
        """Of the classes stored, ascending; everything else is told in this order."""
        return sorted(self._classes)

    @property
    def class_names(self) -> list[str]:
        return [self._classes[label].name for label in self.labels]

    @property
    def counts(self) -> list[int]:
        """Exemplars of each class."""
        return [len(self._classes[label].exemplars) for label in self.labels]

    @property
    def nbytes(self) -> int:
        """What counts against the budget; never more than `budget_bytes`."""
        return sum(self._counted(stored.exemplars) for stored in self._classes.values())

    @property
    def budget_bytes(self) -> int:
        """The budget of all classes seen so far together."""
        return self.budget.total(self.num_seen_classes)

    @property
    def counted_exemplar_bytes(self) -> int | None:
        """What one exemplar takes of the budget; None where sizes vary."""
        return self.codec.exemplar_bytes if self.config.count_overhead else self.codec.payload_bytes

    def capacity(self, num_classes: int) -> int | None:
        """Exemplars that fit per class when `num_classes` share the memory; None if sizes vary."""
        size = self.counted_exemplar_bytes
        return None if size is None else self.budget.quota(num_classes) // size

    def ledger(self) -> dict[str, Any]:
        """Where the bytes are; only payload, positions and lengths grow with the exemplars."""
        return itemise(self._header(), self.codec, self._classes)

    # ----------------------------------------------------------------------------------- changes

    def fit_to(self, num_seen_classes: int) -> None:
        """Make room for classes to come: every class keeps as many of its best as its share holds.

        Raises:
            InputError: A share cannot hold one exemplar.
        """
        assert num_seen_classes >= len(self._classes), "the classes stored have been seen"
        self._require_room(num_seen_classes)
        self.num_seen_classes = num_seen_classes
        for label, stored in self._classes.items():
            kept = self._fitting(stored.exemplars)
            self._classes[label] = StoredClass(stored.name, kept)
        self._check_budget()

    def add_class(self, label: int, name: str, images: Iterable[np.ndarray | Tensor]) -> int:
        """Store a new class; returns how many exemplars its share holds.

        Args:
            label: Not stored yet.
            name: Kept with the class.
            images: uint8 [H, W, C], best first; read only as far as they fit.

        Raises:
            InputError: An image is of another shape, or not even the first one fits.
        """
        if label < 0 or label in self._classes:
            raise InputError(
                f"a new class must have a label of its own, from 0; got {label}. Remove the class "
                "that has it first."
            )
        _check_name(name)
        num_seen_classes = max(self.num_seen_classes, len(self._classes) + 1)
        exemplars = self._encode(label, name, images, num_seen_classes)
        self.fit_to(num_seen_classes)  # only now: a class that fails leaves the others alone
        self._classes[label] = StoredClass(name, exemplars)
        self._check_budget()
        return len(exemplars)

    def remove_class(self, label: int) -> None:
        """Forget a class; a file saved afterwards holds nothing of it."""
        self._stored(label)
        del self._classes[label]
        self._check_budget()

    def remove_exemplar(self, label: int, rank: int) -> None:
        """Forget one exemplar; worse ones move up by a rank."""
        stored = self._stored(label)
        if not 0 <= rank < len(stored.exemplars):
            raise InputError(
                f"class {stored.name!r} has exemplars 0 to {len(stored.exemplars) - 1}; got {rank}."
            )
        kept = stored.exemplars[:rank] + stored.exemplars[rank + 1 :]
        self._classes[label] = StoredClass(stored.name, kept)
        self._check_budget()

    # ------------------------------------------------------------------------------------ reading

    def exemplars(self, label: int) -> tuple[Exemplar, ...]:
        """What is stored of a class, best first."""
        return self._stored(label).exemplars

    def images(self, fill: Sequence[int] | None = None) -> ImageSet | None:
        """Everything decoded, class by class, best first; None when the memory is empty.

        Args:
            fill: Colour of unknown pixels, 0 to 255 per channel; by default the mean colour of
                the known pixels of each image.
        """
        return decode_classes(self.codec, self._classes, fill)

    # ------------------------------------------------------------------------------------- files

    def state_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and JSON metadata from which `from_arrays` makes an equal memory."""
        return pack(self._header(), self.codec, self._classes)

    @classmethod
    def from_arrays(
        cls, arrays: Arrays, metadata: Any, source: str = "the stored memory"
    ) -> Memory:
        """The inverse of `state_arrays`.

        Raises:
            InputError: The contents are impossible; the message begins with `source`.
        """
        header, classes = unpack(arrays, metadata, source)
        memory = cls(header.config, header.image_shape, header.seed)
        memory.num_seen_classes = header.num_seen_classes
        memory._classes = classes
        quota = memory.budget.quota(header.num_seen_classes)
        if any(memory._counted(stored.exemplars) > quota for stored in classes.values()):
            raise InputError(
                f"{source} does not hold a usable memory: a class takes more than its {quota:,} "
                "bytes. Restore it from a copy."
            )
        memory._check_budget()
        return memory

    def digest(self) -> str:
        """SHA-256 of everything stored; equal to that of the saved file."""
        return digest_of(*self.state_arrays())

    def save(self, path: Path) -> str:
        """Write one file, the same bytes for the same contents, and return its digest."""
        arrays, metadata = self.state_arrays()
        return write_archive(path, KIND, VERSION, arrays, metadata)

    @classmethod
    def load(cls, path: Path) -> Memory:
        """Read a saved memory.

        Raises:
            InputError: The file is missing, damaged, or of another kind or version.
        """
        arrays, metadata = read_archive(path, KIND, VERSION)
        return cls.from_arrays(arrays, metadata, str(path))

    # ----------------------------------------------------------------------------------- private

    def _header(self) -> ArchiveHeader:
        return ArchiveHeader(
            config=self.config,
            image_shape=self.image_shape,
            seed=self.seed,
            num_seen_classes=self.num_seen_classes,
            names=tuple(self.class_names),
        )

    def _stored(self, label: int) -> StoredClass:
        if label not in self._classes:
            raise InputError(f"the memory must hold class {label}; it holds {self.labels}.")
        return self._classes[label]

    def _checked(self, image: np.ndarray | Tensor) -> np.ndarray:
        array = np.asarray(image)
        if array.dtype != np.uint8 or array.shape != self.image_shape:
            raise InputError(
                f"the memory stores uint8 images of shape {self.image_shape}; got {array.dtype} of "
                f"shape {array.shape}."
            )
        return array

    def _encode(
        self, label: int, name: str, images: Iterable[np.ndarray | Tensor], num_classes: int
    ) -> tuple[Exemplar, ...]:
        """The exemplars of a class up to its share; stops at the first that does not fit."""
        self._require_room(num_classes)
        quota, used = self.budget.quota(num_classes), 0
        exemplars: list[Exemplar] = []
        for rank, image in enumerate(islice(images, self.capacity(num_classes))):
            draw = generator(self.seed, "patches", label, rank)
            exemplar = self.codec.encode(self._checked(image), draw)
            self.codec.check(exemplar)
            used += self._counted([exemplar])
            if used > quota:
                break
            exemplars.append(exemplar)
        if not exemplars and used:
            raise InputError(
                f"the memory must hold one exemplar of class {name!r} ({used:,} bytes); its share "
                f"is {quota:,}. Raise memory.budget or choose a smaller memory.codec."
            )
        if not exemplars:
            raise InputError(f"class {name!r} must have at least one image; it has none.")
        return tuple(exemplars)

    def _counted(self, exemplars: Iterable[Exemplar]) -> int:
        if not self.config.count_overhead:
            return sum(len(exemplar.payload) for exemplar in exemplars)
        extra = self.codec.length_bytes
        return sum(len(one.payload) + len(one.positions) + extra for one in exemplars)

    def _fitting(self, exemplars: tuple[Exemplar, ...]) -> tuple[Exemplar, ...]:
        room, kept = self.budget.quota(self.num_seen_classes), 0
        for exemplar in exemplars:
            room -= self._counted([exemplar])
            if room < 0:
                break
            kept += 1
        return exemplars[:kept]

    def _require_room(self, num_classes: int) -> None:
        size = self.counted_exemplar_bytes
        if size is None or num_classes == 0 or self.capacity(num_classes):
            return
        needed = size if self.budget.per_class else size * num_classes
        share = "/class" if self.budget.per_class else ""
        whose = "one exemplar"
        if not share and num_classes > 1:
            whose += f" of each of {num_classes:,} classes"
        raise InputError(
            f"memory.budget must hold {whose} ({needed:,} bytes); got {self.budget.bytes:,}. "
            f'Raise memory.budget to at least "{needed}B{share}" or choose a smaller memory.codec.'
        )

    def _check_budget(self) -> None:
        assert len(self._classes) <= self.num_seen_classes, "more classes stored than seen"
        used = self.nbytes
        assert used <= self.budget_bytes, f"{used} bytes stored, {self.budget_bytes} allowed"


def _check_name(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(f"a class name must be valid text; got {name!r}. Rename it.") from None
