"""How classes share a budget, and what goes when they must make room.

Exemplars stand in rank order and a class always keeps its best: it is filled up to the first that
does not fit, and cut from the end.
Chosen: later ones that are smaller are not tried, because a class would then fill up with what is
easiest to code instead of what ranks best; less than one exemplar of a share stays unused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from remnant.errors import InputError, amount
from remnant.memory.budget import Budget
from remnant.memory.class_sizes import ClassSizes
from remnant.memory.codecs.codec import Codec, Exemplar
from remnant.memory.memory_file import StoredClass

Classes = Mapping[int, StoredClass]


@dataclass(frozen=True)
class Packing:
    """The rules by which bytes are counted and shared; pure functions."""

    budget: Budget
    count_overhead: bool
    side_bytes: int = 0  # that each exemplar of the classes to come will carry

    def size(self, codec: Codec) -> int | None:
        """What one exemplar to come takes of the budget; None where sizes vary."""
        size = codec.exemplar_bytes if self.count_overhead else codec.payload_bytes
        return None if size is None else size + self.side_bytes

    def counted(self, codec: Codec, exemplars: Iterable[Exemplar]) -> int:
        """What `exemplars` take of the budget; side data always count."""
        if not self.count_overhead:
            return sum(len(one.content) + len(one.side) for one in exemplars)
        return sum(bytes_of(codec, one) for one in exemplars)

    def share(self, codec: Codec, sizes: ClassSizes, num_classes: int) -> int:
        """Bytes that each class may take when `num_classes` share the budget, these among them."""
        if self.budget.per_class:
            return self.budget.bytes
        return sizes.level(num_classes - len(sizes), self.budget.bytes, self.size(codec) or 0)

    def require_room(
        self, codec: Codec, num_classes: int, size: int | None = None, largest: int | None = None
    ) -> None:
        """Refuse a budget known to be too small for one exemplar of each of `num_classes`.

        Args:
            size: Of the smallest exemplar that was measured, where sizes vary.
            largest: Of the largest one, which the advice leaves room for.

        Raises:
            InputError: The message names the smallest budget that works; where sizes vary, one
                that works for all that were measured.
        """
        size = self.size(codec) or size
        if size is None or num_classes == 0 or size <= self.budget.quota(num_classes):
            return
        needed = size if self.budget.per_class else size * num_classes
        whose = "one exemplar"
        if not self.budget.per_class and num_classes > 1:
            whose += f" of each of {num_classes:,} classes"
        raise InputError(
            f"memory.budget must hold {whose} ({amount(needed, 'byte')}); got "
            f"{amount(self.budget.bytes, 'byte')}. {self._remedy(largest or size, num_classes)}"
        )

    def _remedy(self, size: int, num_classes: int) -> str:
        """A budget that holds an exemplar of `size` bytes of each class."""
        needed = f"{size}B/class" if self.budget.per_class else f"{size * num_classes}B"
        return f'Raise memory.budget to at least "{needed}" or choose a smaller memory.codec.'

    def overflow(self, sizes: ClassSizes) -> str | None:
        """How classes of these sizes exceed the budget, in words; None if they do not."""
        if self.budget.per_class:
            used, who = sizes.largest, "a class takes"
        else:
            used, who = sizes.total, "its classes take"
        allowed = self.budget.bytes
        return f"{who} {used:,} bytes, more than {allowed:,}" if used > allowed else None

    def best(
        self, codec: Codec, name: str, exemplars: Iterable[Exemplar], share: int, num_classes: int
    ) -> tuple[Exemplar, ...]:
        """The exemplars of class `name`, best first, up to a share; read only as far as they fit.

        Args:
            num_classes: That share the budget, this one among them.

        Raises:
            InputError: The share cannot hold the first. The message names a budget that would.
        """
        room, has_one_size = share, self.size(codec) is not None
        kept: list[Exemplar] = []
        for exemplar in exemplars:
            needed = self.counted(codec, [exemplar])
            if needed > room and not kept:
                raise InputError(
                    f"the memory must hold one exemplar of class {name!r} "
                    f"({amount(needed, 'byte')}); its share is {amount(share, 'byte')}. "
                    f"{self._remedy(needed, num_classes)}"
                )
            if needed > room:
                break
            kept.append(exemplar)
            room -= needed
            if has_one_size and needed > room:
                break  # no other of the class fits either, so none is read
        return tuple(kept)

    def trim(self, codec: Codec, classes: Classes, sizes: ClassSizes) -> dict[int, StoredClass]:
        """The classes that exceed their share, cut to it; no other is looked at.

        Raises:
            InputError: A share cannot hold the best exemplar of a class.
        """
        count = len(sizes)
        share = self.share(codec, sizes, count)
        large = ((label, classes[label]) for label in sizes.above(share))
        return {
            label: StoredClass(one.name, self.best(codec, one.name, one.exemplars, share, count))
            for label, one in large
        }


def bytes_of(codec: Codec, exemplar: Exemplar) -> int:
    """Everything that an exemplar takes: payload, positions, length and side data."""
    beside = len(exemplar.positions) + len(exemplar.side) + codec.length_bytes
    return len(exemplar.content) + beside
