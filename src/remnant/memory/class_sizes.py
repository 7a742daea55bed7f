"""How many bytes each class takes, kept so that a change costs what changes.

A memory of many classes asks after every change for a *level*: the bytes that no class may exceed
so that all fit. Nothing here visits every class for that. The sum and the number of the sizes that
begin with the same binary digits are kept for every beginning; the level is found digit by digit.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

_BITS = 48  # of a size: no class takes 256 TiB


class ClassSizes:
    """Bytes by class, with what the rules of packing ask of them."""

    def __init__(self) -> None:
        self.total = 0
        self._of: dict[int, int] = {}  # by label
        self._ascending: list[tuple[int, int]] = []  # size and label
        # Number and sum of the sizes s with s >> bit == prefix, by bit and prefix.
        self._tree: dict[tuple[int, int], tuple[int, int]] = {}

    def copy(self) -> ClassSizes:
        other = ClassSizes()
        other.total, other._of, other._tree = self.total, {**self._of}, {**self._tree}
        other._ascending = [*self._ascending]
        return other

    def __len__(self) -> int:
        return len(self._of)

    @property
    def largest(self) -> int:
        return self._ascending[-1][0] if self._ascending else 0

    def above(self, level: int) -> list[int]:
        """Labels of the classes that take more than `level` bytes."""
        first = bisect_right(self._ascending, (level, inf))
        return [label for _, label in self._ascending[first:]]

    def put(self, label: int, size: int | None) -> None:
        """Say what a class takes now; None: it is gone."""
        old = self._of.pop(label, None)
        if old is not None:
            del self._ascending[bisect_left(self._ascending, (old, label))]
            self._count(old, -1)
        if size is not None:
            self._of[label] = size
            insort(self._ascending, (size, label))
            self._count(size, 1)

    @contextmanager
    def changed(self, label: int | None, size: int | None) -> Iterator[None]:
        """Inside this block a class takes `size` bytes; afterwards what it took before."""
        if label is None:
            yield
            return
        before = self._of.get(label)
        self.put(label, size)
        try:
            yield
        finally:
            self.put(label, before)

    def level(self, num_to_come: int, total: int, step: int) -> int:
        """Bytes that no class may exceed so that all of them, and those to come, fit in `total`.

        A class that stays a `step` or more below the level has no more images: it leaves its rest
        to the others. With `step` the size of an exemplar, classes that are full to less than one
        more count as full, so that equal classes get floor(total / step / number) exemplars each.
        """
        find = self._below_step if step else self._below
        taken, count = find(num_to_come, total, step)
        num_sharing = len(self) - count + num_to_come
        return (total - taken) // num_sharing if num_sharing else total

    def _below_step(self, num_to_come: int, total: int, step: int) -> tuple[int, int]:
        """Sum and number of the sizes that leave something; equal sizes are passed together."""
        index, taken = 0, 0
        while index < len(self):
            size = self._ascending[index][0]
            if size + step > (total - taken) // (len(self) - index + num_to_come):
                break
            end = bisect_right(self._ascending, (size, inf), lo=index)
            taken, index = taken + size * (end - index), end
        return taken, index

    def _below(self, num_to_come: int, total: int, _: int) -> tuple[int, int]:
        """Sum and number of the sizes below the highest level at which all fit."""
        level, taken, count = 0, 0, 0
        for bit in reversed(range(_BITS)):
            more, added = self._tree.get((bit, level >> bit), (0, 0))
            higher, num_sharing = level + (1 << bit), len(self) - count - more + num_to_come
            if taken + added + num_sharing * higher <= total:
                level, taken, count = higher, taken + added, count + more
        return taken, count

    def _count(self, size: int, sign: int) -> None:
        self.total += sign * size
        for bit in range(_BITS):
            key = bit, size >> bit
            count, total = self._tree.get(key, (0, 0))
            if count + sign:
                self._tree[key] = count + sign, total + sign * size
            else:
                del self._tree[key]
