from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from remnant.errors import InputError
from remnant.memory import CODECS, Candidate, Memory, MemoryConfig
from tests.support.deflate import DeflateCodec
from tests.support.strategies import pixels

SMALL = (8, 8, 3)
SIZE = 8 * 8 * 3


def some_images(count: int, seed: int = 0) -> list[np.ndarray]:
    return [pixels(SMALL, seed + index) for index in range(count)]


def remember(memory: Memory, num_images: Sequence[int]) -> None:
    """What a method does at the end of a task with so many images of each new class."""
    first = max(memory.labels, default=-1) + 1
    memory.expect(first + len(num_images))
    for label, count in enumerate(num_images, start=first):
        memory.add_class(label, str(label), map(Candidate, some_images(count, seed=100 * label)))


@pytest.fixture
def deflate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CODECS, "raw", DeflateCodec)


# ---------------------------------------------------------------------------------- total budgets


def test_a_fixed_total_of_equal_classes_shrinks_as_published() -> None:
    memory, counts = Memory(MemoryConfig(budget="200images"), SMALL, seed=0), []
    for _ in range(10):
        remember(memory, [30] * 10)
        assert len(set(memory.counts)) == 1
        counts.append(memory.counts[0])
    assert counts == [20, 10, 6, 5, 4, 3, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("tasks", "counts"),
    [
        ([[2, 30, 30]], [2, 9, 9]),  # in 20 images: the first leaves to those after it
        ([[30, 2, 30]], [6, 2, 12]),  # what is left goes to later classes, evenly
        ([[30], [2]], [18, 2]),  # and old ones give way by no more than is taken
        ([[30], [2, 2]], [16, 2, 2]),
        ([[2, 30], [30]], [2, 9, 9]),
        ([[30, 30], [30]], [6, 6, 6]),
        ([[12, 4], [30]], [8, 4, 8]),  # the largest is cut first
    ],
)
def test_what_a_class_does_not_need_is_left_to_others(
    tasks: list[list[int]], counts: list[int]
) -> None:
    memory = Memory(MemoryConfig(budget="20images"), SMALL, seed=0)
    for task in tasks:
        remember(memory, task)
    assert memory.counts == counts


def test_the_room_told_is_what_is_stored() -> None:
    memory = Memory(MemoryConfig(budget="20images"), SMALL, seed=0)
    memory.expect(3)
    assert (memory.room(), memory.capacity(3)) == (6, 6)
    memory.add_class(0, "few", map(Candidate, some_images(2)))
    assert (memory.room(), memory.capacity(3)) == (9, 6)
    assert memory.add_class(1, "many", map(Candidate, some_images(30))) == 9


def test_a_budget_per_class_is_never_left_to_others() -> None:
    memory = Memory(MemoryConfig(budget="5images/class"), SMALL, seed=0)
    remember(memory, [2, 30, 30])
    assert memory.counts == [2, 5, 5]
    assert (memory.room(), memory.budget_bytes) == (5, 15 * SIZE)


# ------------------------------------------------------------------------------------ varying sizes


def flat(count: int) -> list[np.ndarray]:
    """Images that deflate to 20 bytes or so; noise takes over 200."""
    return [np.full(SMALL, value, dtype=np.uint8) for value in range(count)]


@pytest.mark.usefixtures("deflate")
def test_a_class_ends_at_the_first_exemplar_that_does_not_fit() -> None:
    memory = Memory(MemoryConfig(budget="600B/class"), SMALL, seed=0)
    noise, small = some_images(3), flat(3)
    assert (
        memory.add_class(
            0, "mixed", map(Candidate, [noise[0], small[0], noise[1], noise[2], small[1]])
        )
        == 3
    )
    rest = memory.budget_bytes - memory.nbytes
    assert len(memory.codec.encode(Candidate(small[1]), torch.Generator()).payload) < rest < SIZE


@pytest.mark.usefixtures("deflate")
def test_the_last_class_takes_all_that_is_left_of_a_total() -> None:
    memory = Memory(MemoryConfig(budget="5000B"), SMALL, seed=0)
    remember(memory, [2, 50, 50])
    largest = max(len(one.payload) for one in memory.exemplars(2)) + 2
    assert memory.counts[0] == 2
    assert memory.budget_bytes - memory.nbytes < largest + 2


@pytest.mark.usefixtures("deflate")
def test_a_share_below_the_best_exemplar_of_an_old_class_is_refused_without_change() -> None:
    memory = Memory(MemoryConfig(budget="300B"), SMALL, seed=0)
    memory.add_class(0, "noise", map(Candidate, some_images(1)))
    before = memory.digest()
    with pytest.raises(InputError, match="one exemplar of class 'noise'"):
        memory.add_class(1, "flat", map(Candidate, flat(9)))
    assert memory.digest() == before
