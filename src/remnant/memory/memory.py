"""The replay memory: the only code that knows the budget."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from remnant import long_rows
from remnant.archives import Arrays, read_archive, write_archive
from remnant.errors import InputError
from remnant.images import ImageSet, Shape
from remnant.long_rows import ScratchFile
from remnant.memory.auto_quality import settle_quality
from remnant.memory.budget import MemoryConfig, parse_budget
from remnant.memory.class_sizes import ClassSizes
from remnant.memory.codecs import build_codec
from remnant.memory.codecs.codec import Candidate, CodecConfig, Exemplar
from remnant.memory.intake import Intake, take_turns
from remnant.memory.memory_file import (
    KIND,
    PAYLOAD,
    VERSION,
    ArchiveHeader,
    StoredClass,
    check_name,
    digest_of,
    itemise,
    pack,
    unpack,
    unusable,
)
from remnant.memory.packing import Packing, bytes_of
from remnant.memory.replay import decode_classes


class Memory:
    """Exemplars of the classes seen, grouped by class, best first, within a byte budget.

    A budget per class is a limit for each. A total is shared: a class that needs less than its
    share leaves the rest to the others, and what must go, goes from the largest.

    Raises:
        InputError: The budget cannot hold one exemplar, or the codec does not suit the images.
    """

    name = "memory"  # among what a method keeps: see `Keeps`

    def __init__(
        self,
        config: MemoryConfig,
        image_shape: Shape,
        seed: int,
        num_classes: int = 1,  # expected to share it
    ) -> None:
        self.config = config = settle_quality(config, image_shape, num_classes)
        self.image_shape = image_shape
        self.seed = seed
        self.codec = build_codec(config.codec, image_shape)
        self.budget = parse_budget(config.budget, self.codec.image_bytes)
        self._packing = Packing(self.budget, config.count_overhead)
        self.num_seen_classes = 0  # never less than the classes stored
        self._classes: dict[int, StoredClass] = {}
        self._sizes = ClassSizes()  # of these classes, by what counts against the budget
        self._digest: str | None = None  # None: not computed since the last change
        self.folder: Path | None = None  # for a scratch file of payloads; None: any
        self._scratch: ScratchFile | None = None
        self._packing.require_room(self.codec, num_classes)

    # ------------------------------------------------------------------------------------- sizes

    @property
    def labels(self) -> list[int]:
        """Labels of the classes stored, ascending; names and counts come in the same order."""
        return sorted(self._classes)

    @property
    def class_names(self) -> list[str]:
        return [self._classes[label].name for label in self.labels]

    @property
    def counts(self) -> list[int]:
        """Number of exemplars of each class."""
        return [len(self._classes[label].exemplars) for label in self.labels]

    @property
    def nbytes(self) -> int:
        """Bytes that count against the budget; never more than `budget_bytes`."""
        return self._sizes.total

    @property
    def budget_bytes(self) -> int:
        """The budget of all classes seen so far together."""
        return self.budget.total(self.num_seen_classes)

    @property
    def counted_exemplar_bytes(self) -> int | None:
        """What one exemplar takes of the budget, side data included; None where sizes vary."""
        return self._packing.size(self.codec)

    def capacity(self, num_classes: int) -> int | None:
        """Exemplars that each of `num_classes` is guaranteed; None if sizes vary."""
        size = self.counted_exemplar_bytes
        return None if size is None else self.budget.quota(num_classes) // size

    def room(self, label: int | None = None) -> int | None:
        """Exemplars that the next class, or class `label`, can store; None if sizes vary.

        More than `capacity` where other classes have left some of a total budget.
        """
        size = self.counted_exemplar_bytes
        if size is None:
            return None
        with self._sizes.changed(label, None):
            num_sharing = max(self.num_seen_classes, len(self._sizes) + 1)
            return self._packing.share(self.codec, self._sizes, num_sharing) // size

    def ledger(self) -> dict[str, Any]:
        """Where the bytes are; payload, positions, lengths and side data grow with exemplars."""
        return itemise(self._header(), self.codec, self._classes)

    # ----------------------------------------------------------------------------------- changes

    def expect(self, num_seen_classes: int, side_bytes: int = 0) -> None:
        """Say how many classes will share the memory once the next ones are added.

        Nothing is dropped before it must be: `add_class` cuts the largest by what it needs, so
        that a class of few images costs the others no more than it takes.

        Args:
            num_seen_classes: Those to come included.
            side_bytes: Of side data that every candidate of the next classes will bring.

        Raises:
            InputError: A share cannot hold one exemplar.
        """
        assert num_seen_classes >= len(self._classes), "the classes stored have been seen"
        self.require_room(num_seen_classes, side_bytes)
        self._packing = replace(self._packing, side_bytes=side_bytes)
        self.num_seen_classes, self._digest = num_seen_classes, None

    def require_room(self, num_classes: int, side_bytes: int = 0) -> None:
        """Refuse a budget known to be too small for one exemplar of each of `num_classes`.

        Raises:
            InputError: The message names a budget that works.
        """
        replace(self._packing, side_bytes=side_bytes).require_room(self.codec, num_classes)

    def use_codec(self, codec: CodecConfig) -> None:
        """Store what is to come in another form; only while nothing is stored.

        Raises:
            InputError: The codec does not suit the images, or the budget holds none of its
                exemplars.
        """
        assert not self._classes, "exemplars keep the form in which they were stored"
        built = build_codec(codec, self.image_shape)
        self._packing.require_room(built, max(1, self.num_seen_classes))
        self.config = self.config.model_copy(update={"codec": codec})
        self.codec = built

    def require_room_for(
        self, images: Iterable[np.ndarray | Tensor], num_classes: int, side_bytes: int = 0
    ) -> None:
        """Refuse a budget that cannot hold the smallest of these images once per class.

        Where sizes vary, only images show whether the budget is too small; a run checks it with a
        few of them before it trains for hours.

        Raises:
            InputError: The message names a budget that holds each of these images.
        """
        packing = replace(self._packing, side_bytes=side_bytes)
        candidates = (Candidate(np.asarray(image)) for image in images)
        exemplars = self._intake.encoded(0, candidates)
        sizes = [packing.counted(self.codec, [one]) + side_bytes for one in exemplars]
        packing.require_room(self.codec, num_classes, min(sizes), max(sizes))

    def add_class(self, label: int, name: str, candidates: Iterable[Candidate]) -> int:
        """Store a new class, at the cost of the largest; returns how many exemplars it has.

        Args:
            label: Not stored yet.
            name: Kept with the class.
            candidates: Best first; read only as far as they fit. Their side data are as long as
                `expect` was told.

        Raises:
            InputError: An image is of another shape, or of some class not even the first fits.
        """
        if label < 0 or label in self._classes:
            raise InputError(
                f"a new class must have a label of its own, from 0; got {label}. Remove the class "
                "with this label first."
            )
        check_name(name)
        num_sharing = max(self.num_seen_classes, len(self._classes) + 1)
        self._packing.require_room(self.codec, num_sharing)
        share = self._share_of(label, num_sharing)
        new = self._intake.of_class(label, name, candidates, self._packing.side_bytes)
        exemplars = self._packing.best(self.codec, name, new, share, num_sharing)
        if not exemplars:
            raise InputError(f"class {name!r} must have at least one image; it has none.")
        self._put(label, StoredClass(name, exemplars), num_sharing)
        return len(exemplars)

    def extend_class(self, label: int, candidates: Iterable[Candidate]) -> int:
        """Store more images of a class, at the cost of its own worst; returns how many it has.

        An image whose code is stored already is not stored again. Exemplars that are stored keep
        their form. Old and new take turns, rank by rank, so that any prefix holds both.
        Chosen: turns, because the number of images that the old ones were chosen from is unknown.

        Args:
            label: A class that is stored.
            candidates: Best first; read only as far as they fit.

        Raises:
            InputError: The class is not stored, or an image is of another shape.
        """
        stored, new = self._stored(label), self.encode_more(label, candidates)
        share = self._share_of(label, self.num_seen_classes)
        turns = take_turns(stored.exemplars, new)
        merged = self._packing.best(self.codec, stored.name, turns, share, self.num_seen_classes)
        self._put(label, StoredClass(stored.name, merged), self.num_seen_classes)
        return len(self._classes[label].exemplars)

    def encode_more(self, label: int, candidates: Iterable[Candidate]) -> Iterator[Exemplar]:
        """More images of a class in its form, without those that are stored; stores nothing.

        Raises:
            InputError: The class is not stored, or an image is of another shape.
        """
        yield from self._intake.more(label, self._stored(label), candidates)

    def insert(self, label: int, exemplars: Mapping[int, Exemplar]) -> None:
        """Put exemplars at these ranks of a class, at the cost of the worst of the largest."""
        stored = self._stored(label)
        merged = list(stored.exemplars)
        for rank in sorted(exemplars):
            merged.insert(rank, exemplars[rank])
        self._put(label, StoredClass(stored.name, tuple(merged)), self.num_seen_classes)

    def take_out(self, label: int, ranks: Collection[int]) -> None:
        """The inverse of `insert`; worse exemplars move up."""
        stored = self._stored(label)
        kept = tuple(one for rank, one in enumerate(stored.exemplars) if rank not in ranks)
        self._commit({label: StoredClass(stored.name, kept)}, self.num_seen_classes)

    def change_budget(self, budget: str) -> None:
        """Live within another budget from now on; what does not fit goes, worst first.

        Raises:
            InputError: The budget cannot hold one exemplar of each class; nothing is changed.
        """
        config = MemoryConfig.parse(self.config.model_dump() | {"budget": budget})
        budget_of = parse_budget(budget, self.codec.image_bytes)
        packing = Packing(budget_of, config.count_overhead, self._packing.side_bytes)
        packing.require_room(self.codec, self.num_seen_classes)
        cut = packing.trim(self.codec, self._classes, self._sizes)
        self.config, self.budget, self._packing = config, packing.budget, packing
        self._commit(cut, self.num_seen_classes)

    def thin_class(self, label: int, count: int) -> None:
        """Keep the best `count` exemplars of a class."""
        stored = self._stored(label)
        if count < 1:
            raise InputError(f"a class must keep at least one exemplar; got {count}.")
        kept = StoredClass(stored.name, stored.exemplars[:count])
        self._commit({label: kept}, self.num_seen_classes)

    def replace_class(self, label: int, candidates: Iterable[Candidate]) -> int:
        """Store other images in place of those of a class; returns how many it has.

        Args:
            label: A class that is stored.
            candidates: Best first; read only as far as they fit.

        Raises:
            InputError: The class is not stored, an image is of another shape, or there is none.
        """
        stored = self._stored(label)
        new = self._intake.of_class(label, stored.name, candidates, stored.side_bytes)
        share = self._share_of(label, self.num_seen_classes)
        exemplars = self._packing.best(self.codec, stored.name, new, share, self.num_seen_classes)
        if not exemplars:
            raise InputError(f"class {stored.name!r} must have at least one image; it has none.")
        self._put(label, StoredClass(stored.name, exemplars), self.num_seen_classes)
        return len(exemplars)

    def remove_class(self, label: int) -> None:
        """Forget a class; a file saved afterwards holds nothing of it."""
        self._stored(label)
        del self._classes[label]
        self._sizes.put(label, None)
        self._digest = None

    def unsee_class(self, label: int) -> None:
        """Forget a class as if it had never been seen: labels above it fall by one.

        It need not be stored, as long as it was seen.
        """
        if not 0 <= label < self.num_seen_classes:
            raise InputError(
                f"the memory has seen classes 0 to {self.num_seen_classes - 1}; got {label}."
            )
        kept = {key - (key > label): one for key, one in self._classes.items() if key != label}
        self._classes, self._sizes = {}, ClassSizes()
        self._commit(kept, self.num_seen_classes - 1)

    def remove_exemplar(self, label: int, rank: int) -> None:
        """Forget one exemplar; worse ones move up by a rank."""
        stored = self._stored(label)
        if not 0 <= rank < len(stored.exemplars):
            raise InputError(
                f"class {stored.name!r} has exemplars 0 to {len(stored.exemplars) - 1}; got {rank}."
            )
        self.take_out(label, (rank,))

    # ------------------------------------------------------------------------------------ reading

    def exemplars(self, label: int) -> tuple[Exemplar, ...]:
        """The exemplars of a class, best first."""
        return self._stored(label).exemplars

    def exemplar_bytes(self, label: int) -> list[int]:
        """Bytes of each exemplar of a class, best first, with all that is stored beside it."""
        return [bytes_of(self.codec, one) for one in self.exemplars(label)]

    def sides(self) -> list[bytes]:
        """The side data of all exemplars, in the order of `images`."""
        return [one.side for label in self.labels for one in self.exemplars(label)]

    def images(self, fill: Sequence[int] | None = None) -> ImageSet | None:
        """Everything decoded, class by class, best first; None when the memory is empty.

        Args:
            fill: Colour of unknown pixels, 0 to 255 per channel; by default the mean colour of
                the known pixels of each image.
        """
        return decode_classes(self.codec, self._classes, fill)

    def present(
        self, images: Iterable[np.ndarray | Candidate], fill: Sequence[int] | None = None
    ) -> ImageSet | None:
        """Images as the memory would give them back, in order; None if there are none.

        Nothing is stored. Labels are 0 and ids are positions: a caller knows the real ones. `fill`
        is that of `images`. Payloads that are too many to be held go to a file that lasts as long
        as the images.
        """
        exemplars = self._intake.presented(images, self.folder)
        return decode_classes(self.codec, {0: StoredClass("", tuple(exemplars))}, fill)

    # ------------------------------------------------------------------------------------- files

    def state_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and JSON metadata from which `from_arrays` makes an equal memory."""
        return pack(self._header(), self.codec, self._classes)

    @classmethod
    def from_arrays(
        cls,
        arrays: Arrays,
        metadata: Any,
        source: str = "the stored memory",
        image_shape: Shape | None = None,
    ) -> Memory:
        """The inverse of `state_arrays`, if the images are of `image_shape`, where that is given.

        Raises:
            InputError: The contents are impossible; the message begins with `source`.
        """
        header, classes = unpack(arrays, metadata, source, image_shape)
        memory = cls(header.config, header.image_shape, header.seed)
        memory._commit(classes, header.num_seen_classes)
        overflow = memory._packing.overflow(memory._sizes)
        if overflow is not None:
            raise unusable(source, f"{overflow}.")
        memory._expect_sides()
        return memory

    def load_arrays(self, arrays: Arrays, metadata: Any, source: str) -> None:
        """Become the memory that `from_arrays` makes, of images of the same shape.

        Raises what `from_arrays` raises.
        """
        read = Memory.from_arrays(arrays, metadata, source, self.image_shape)
        vars(self).update(vars(read) | {"folder": self.folder})

    def share(self, other: Memory) -> None:
        """Become the memory that `other` is now, of the same classes, which are never altered."""
        own = {"folder": self.folder, "_classes": {**other._classes}, "_sizes": other._sizes.copy()}
        vars(self).update(vars(other) | own)
        self._expect_sides()

    def require_classes(self, names: Sequence[str], source: str) -> None:
        """Compare what is stored with all classes seen, in label order.

        Raises:
            InputError: They differ; the message begins with `source`.
        """
        named = dict(enumerate(names))
        if self.num_seen_classes != len(named):
            problem = f"it has seen {self.num_seen_classes:,} classes of {len(named):,}"
        elif any(named.get(label) != one.name for label, one in self._classes.items()):
            problem = "it names other classes"
        else:
            return
        raise unusable(source, f"{problem}.")

    def require_budget(self, budget: str, source: str) -> None:
        """Compare the budget with that of the settings around it.

        Raises:
            InputError: They differ; the message begins with `source`.
        """
        if self.config.budget != budget:
            raise unusable(source, f"its budget is {self.config.budget}, not {budget}.")

    def digest(self) -> str:
        """SHA-256 of everything stored; equal to that of the saved file."""
        if self._digest is None:
            self._digest = digest_of(*self.state_arrays())
        return self._digest

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
        arrays, metadata = read_archive(path, KIND, VERSION, PAYLOAD)
        return cls.from_arrays(arrays, metadata, str(path))

    # ----------------------------------------------------------------------------------- private

    @property
    def _intake(self) -> Intake:
        return Intake(self.codec, self.seed)  # made anew, because the codec can be replaced

    def _header(self) -> ArchiveHeader:
        return ArchiveHeader(
            config=self.config,
            image_shape=self.image_shape,
            seed=self.seed,
            num_seen_classes=self.num_seen_classes,
            names=tuple(self.class_names),
        )

    def _expect_sides(self) -> None:
        side_bytes = max((stored.side_bytes for stored in self._classes.values()), default=0)
        self._packing = replace(self._packing, side_bytes=side_bytes)

    def _stored(self, label: int) -> StoredClass:
        if label not in self._classes:
            raise InputError(f"the memory must hold class {label}; it holds {self.labels}.")
        return self._classes[label]

    def _share_of(self, label: int, num_sharing: int) -> int:
        """Bytes that a class may take, whatever it takes now."""
        with self._sizes.changed(label, None):
            return self._packing.share(self.codec, self._sizes, num_sharing)

    def _put(self, label: int, stored: StoredClass, num_seen: int) -> None:
        """Put a class in place and cut the largest; one that fails changes nothing."""
        classes = ChainMap({label: stored}, self._classes)
        with self._sizes.changed(label, self._packing.counted(self.codec, stored.exemplars)):
            cut = self._packing.trim(self.codec, classes, self._sizes)
        self._commit({label: stored} | cut, num_seen)
        overflow = self._packing.overflow(self._sizes)
        assert overflow is None, overflow

    def _commit(self, changes: dict[int, StoredClass], num_seen: int) -> None:
        """The one way in which classes change."""
        for label, stored in changes.items():
            self._sizes.put(label, self._packing.counted(self.codec, stored.exemplars))
        if self.nbytes > long_rows.HELD_BYTES:
            self._scratch = self._scratch or ScratchFile(self.folder)
            changes = {label: one.filed(self._scratch) for label, one in changes.items()}
        self._classes |= changes
        self.num_seen_classes, self._digest = num_seen, None
        assert len(self._classes) <= num_seen, "more classes stored than seen"
