"""The replay memory: the only code that knows the budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from remnant.archives import Arrays, read_archive, write_archive
from remnant.errors import InputError
from remnant.images import ImageSet
from remnant.memory.budget import MemoryConfig, parse_budget
from remnant.memory.codecs import build_codec
from remnant.memory.codecs.codec import Codec, Exemplar
from remnant.memory.memory_file import (
    KIND,
    VERSION,
    ArchiveHeader,
    StoredClass,
    digest_of,
    itemise,
    pack,
    unpack,
)
from remnant.memory.packing import Packing
from remnant.memory.replay import decode_classes
from remnant.randomness import generator

ItemT = TypeVar("ItemT")


class Memory:
    """Exemplars of the classes seen, grouped by class, best first, within a byte budget.

    A budget per class is a limit for each. A total is shared: a class that needs less than its
    share leaves the rest to the others, and what must go, goes from the largest.

    Raises:
        InputError: The budget cannot hold one exemplar, the codec does not suit the images, or
            quality is to give way where it cannot.
    """

    name = "memory"  # among what a method keeps: see `Keeps`

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
        self.codec = build_codec(config.codec, image_shape)  # in force; `recode` makes it weaker
        self.budget = parse_budget(config.budget, self.codec.image_bytes)
        self._packing = Packing(self.budget, config.count_overhead)
        self.num_seen_classes = 0  # never less than the classes stored
        self._classes: dict[int, StoredClass] = {}
        self._check_when_full()
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
        classes = self._classes.values()
        return sum(self._packing.counted(self.codec, stored.exemplars) for stored in classes)

    @property
    def budget_bytes(self) -> int:
        """The budget of all classes seen so far together."""
        return self.budget.total(self.num_seen_classes)

    @property
    def counted_exemplar_bytes(self) -> int | None:
        """What one exemplar takes of the budget; None where sizes vary."""
        return self._packing.size(self.codec)

    def capacity(self, num_classes: int) -> int | None:
        """Exemplars that every class is sure of when `num_classes` share; None if sizes vary."""
        size = self.counted_exemplar_bytes
        return None if size is None else self.budget.quota(num_classes) // size

    def room(self, label: int | None = None) -> int | None:
        """Exemplars that the next class, or class `label`, can store; None if sizes vary.

        More than `capacity` where other classes have left some of a total budget.
        """
        size = self.counted_exemplar_bytes
        if size is None:
            return None
        others = {key: stored for key, stored in self._classes.items() if key != label}
        num_sharing = max(self.num_seen_classes, len(others) + 1)
        return self._packing.share(self.codec, others, num_sharing) // size

    def ledger(self) -> dict[str, Any]:
        """Where the bytes are; only payload, positions and lengths grow with the exemplars."""
        return itemise(self._header(), self.codec, self._classes)

    # ----------------------------------------------------------------------------------- changes

    def expect(self, num_seen_classes: int) -> None:
        """Say how many classes will share the memory once the next ones are added.

        Nothing is dropped before it must be: `add_class` cuts the largest by what it needs, so
        that a class of few images costs the others no more than it takes. With `recode` the
        quality of all falls here, as if every class to come needed its whole share.

        Raises:
            InputError: A share cannot hold one exemplar.
        """
        self._commit(*self._weakened(num_seen_classes), num_seen_classes)

    def require_room_for(self, images: Iterable[np.ndarray | Tensor], num_classes: int) -> None:
        """Refuse a budget too small for the smallest of these images, once for each class.

        Where sizes vary, nobody can tell before there are images; with this a run does not learn
        for hours what it cannot keep.

        Raises:
            InputError: The message names a budget that works.
        """
        weakest = self._weakest()
        exemplars = self._encoded(weakest, 0, images)
        size = min(self._packing.counted(weakest, [exemplar]) for exemplar in exemplars)
        self._packing.require_room(weakest, num_classes, size)

    def fit_to(self, num_seen_classes: int) -> None:
        """Make room for classes to come: every class keeps as many of its best as its share holds.

        Raises:
            InputError: A share cannot hold one exemplar.
        """
        codec, classes = self._weakened(num_seen_classes)
        kept = self._packing.trim(codec, classes, num_seen_classes)
        self._commit(codec, kept, num_seen_classes)

    def add_class(self, label: int, name: str, images: Iterable[np.ndarray | Tensor]) -> int:
        """Store a new class, at the cost of the largest; returns how many exemplars it has.

        Args:
            label: Not stored yet.
            name: Kept with the class.
            images: uint8 [H, W, C], best first; read only as far as they fit.

        Raises:
            InputError: An image is of another shape, or of some class not even the first fits.
        """
        if label < 0 or label in self._classes:
            raise InputError(
                f"a new class must have a label of its own, from 0; got {label}. Remove the class "
                "that has it first."
            )
        _check_name(name)
        num_sharing = self._num_sharing
        codec, classes = self._weakened(num_sharing)
        share = self._packing.share(codec, classes, num_sharing)
        encoded = self._encoded(codec, label, images)
        exemplars = self._packing.best(codec, name, encoded, share)
        if not exemplars:
            raise InputError(f"class {name!r} must have at least one image; it has none.")
        classes[label] = StoredClass(name, exemplars)
        kept = self._packing.trim(codec, classes, len(classes))
        self._commit(codec, kept, num_sharing)  # only now: a class that fails changes nothing
        return len(exemplars)

    def extend_class(self, label: int, images: Iterable[np.ndarray | Tensor]) -> int:
        """Store more images of a class, at the cost of its own worst; returns how many it has.

        Exemplars that are stored keep their form. Old and new take turns, rank by rank, so that
        any prefix holds both.
        Chosen: turns, and not shares of how many images each came from, which nobody keeps.

        Args:
            label: Of a class that is stored.
            images: uint8 [H, W, C], best first; read only as far as they fit.

        Raises:
            InputError: The class is not stored, or an image is of another shape.
        """
        stored = self._stored(label)
        num_seen = self.num_seen_classes
        codec, classes = self._weakened(num_seen)
        old = classes.pop(label).exemplars
        new = self._encoded(codec, label, images, first_rank=len(old))
        share = self._packing.share(codec, classes, num_seen)
        merged = self._packing.best(codec, stored.name, take_turns(old, new), share)
        classes[label] = StoredClass(stored.name, merged)
        kept = self._packing.trim(codec, classes, len(classes))
        self._commit(codec, kept, num_seen)
        return len(kept[label].exemplars)

    def remove_class(self, label: int) -> None:
        """Forget a class; a file saved afterwards holds nothing of it."""
        self._stored(label)
        del self._classes[label]

    def unsee_class(self, label: int) -> None:
        """Forget a class as if it had never come: labels above it fall by one.

        It need not be stored, as long as it was seen.
        """
        if not 0 <= label < self.num_seen_classes:
            raise InputError(
                f"the memory has seen classes 0 to {self.num_seen_classes - 1}; got {label}."
            )
        self._classes = {
            key - (key > label): stored for key, stored in self._classes.items() if key != label
        }
        self.num_seen_classes -= 1

    def remove_exemplar(self, label: int, rank: int) -> None:
        """Forget one exemplar; worse ones move up by a rank."""
        stored = self._stored(label)
        if not 0 <= rank < len(stored.exemplars):
            raise InputError(
                f"class {stored.name!r} has exemplars 0 to {len(stored.exemplars) - 1}; got {rank}."
            )
        kept = stored.exemplars[:rank] + stored.exemplars[rank + 1 :]
        self._classes[label] = StoredClass(stored.name, kept)

    # ------------------------------------------------------------------------------------ reading

    def exemplars(self, label: int) -> tuple[Exemplar, ...]:
        """What is stored of a class, best first."""
        return self._stored(label).exemplars

    def exemplar_bytes(self, label: int) -> list[int]:
        """What each exemplar of a class takes, best first, with positions and length."""
        extra = self.codec.length_bytes
        return [len(one.payload) + len(one.positions) + extra for one in self.exemplars(label)]

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
        header, codec, classes = unpack(arrays, metadata, source)
        memory = cls(header.config, header.image_shape, header.seed)
        overflow = memory._packing.overflow(codec, classes)
        if overflow is not None:
            raise InputError(
                f"{source} does not hold a usable memory: {overflow}. Restore it from a copy."
            )
        memory._commit(codec, classes, header.num_seen_classes)
        return memory

    def load_arrays(self, arrays: Arrays, metadata: Any, source: str) -> None:
        """Become the memory that `from_arrays` makes; raises what it raises."""
        vars(self).update(vars(Memory.from_arrays(arrays, metadata, source)))

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
            codec=None if self.codec.config == self.config.codec else self.codec.config,
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

    @property
    def _num_sharing(self) -> int:
        """Classes that share the memory when one more is added."""
        return max(self.num_seen_classes, len(self._classes) + 1)

    def _weakened(self, num_classes: int) -> tuple[Codec, dict[int, StoredClass]]:
        """Codec and classes after quality has given way as far as the config lets it."""
        assert num_classes >= len(self._classes), "the classes stored have been seen"
        self._require_room(num_classes)
        if self.config.when_full == "drop":
            return self.codec, dict(self._classes)
        return self._packing.weaken(self.codec, self._classes, num_classes)

    def _commit(self, codec: Codec, classes: dict[int, StoredClass], num_seen: int) -> None:
        assert len(classes) <= num_seen, "more classes stored than seen"
        overflow = self._packing.overflow(codec, classes)
        assert overflow is None, overflow
        self.codec, self._classes, self.num_seen_classes = codec, classes, num_seen

    def _encoded(
        self,
        codec: Codec,
        label: int,
        images: Iterable[np.ndarray | Tensor],
        first_rank: int = 0,
    ) -> Iterator[Exemplar]:
        for rank, image in enumerate(images, start=first_rank):
            draw = generator(self.seed, "patches", label, rank)
            exemplar = codec.encode(self._checked(image), draw)
            codec.check(exemplar)
            yield exemplar

    def _check_when_full(self) -> None:
        if self.config.when_full == "drop":
            return
        if self.budget.per_class:
            raise InputError(
                'memory.when_full="recode" needs a budget for all classes together: a share per '
                f"class never shrinks; got {self.config.budget!r}. Write a total, such as "
                '"2MiB", or leave memory.when_full as it is.'
            )
        if self.codec.weaker() is None:
            raise InputError(
                'memory.when_full="recode" needs a codec whose quality can be lowered; '
                f"{self.config.codec.name!r} as it is set has no weaker form. Choose another "
                "memory.codec or a higher quality, or leave memory.when_full as it is."
            )

    def _require_room(self, num_classes: int) -> None:
        self._packing.require_room(self._weakest(), num_classes)

    def _weakest(self) -> Codec:
        forms = self.codec.weaker_forms() if self.config.when_full == "recode" else ()
        *_, weakest = (self.codec, *forms)
        return weakest


def take_turns(first: Iterable[ItemT], second: Iterable[ItemT]) -> Iterator[ItemT]:
    """One of the first, one of the second, and so on; then what is left of the longer."""
    for pair in zip_longest(first, second):
        yield from (item for item in pair if item is not None)


def _check_name(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(f"a class name must be valid text; got {name!r}. Rename it.") from None
