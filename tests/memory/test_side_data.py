"""Side data of exemplars: counted, thinned, saved and given back with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remnant.errors import InputError
from remnant.memory import Candidate, Memory, MemoryConfig
from remnant.planning.memory_table import plan_memory
from tests.support.strategies import memory_configs, pixels

SHAPE = (8, 8, 3)
SIZE = 8 * 8 * 3


def note(label: int, rank: int, length: int) -> bytes:
    return bytes((100 * label + rank + place) % 256 for place in range(length))


def offers(label: int, count: int, length: int) -> Iterator[Candidate]:
    for rank in range(count):
        yield Candidate(pixels(SHAPE, 9 * label + rank), side=note(label, rank, length))


def filled(config: MemoryConfig, lengths: list[int], count: int = 5) -> Memory:
    """A class after the other, each with side data of its own length."""
    memory = Memory(config, SHAPE, seed=0)
    for label, length in enumerate(lengths):
        memory.expect(label + 1, length)
        memory.add_class(label, f"class {label}", offers(label, count, length))
    return memory


@given(memory_configs(), st.lists(st.integers(0, 40), max_size=4))
@settings(max_examples=30, deadline=None)
def test_side_data_come_back_beside_their_exemplars(
    config: MemoryConfig, lengths: list[int]
) -> None:
    try:
        memory = filled(config, lengths)
    except InputError:  # too small a budget for so long a note
        return
    again = Memory.from_arrays(*memory.state_arrays())
    for one in (memory, again):
        expected = [
            note(label, rank, lengths[label])
            for label in one.labels
            for rank in range(len(one.exemplars(label)))
        ]
        assert one.sides() == expected
        assert one.nbytes <= one.budget_bytes
    assert again.digest() == memory.digest()
    assert again.ledger() == memory.ledger()


@pytest.mark.parametrize("count_overhead", [True, False])
def test_side_data_count_against_the_budget(count_overhead: bool) -> None:
    config = MemoryConfig(budget="1000B/class", count_overhead=count_overhead)
    memory = filled(config, [0, 40, 140])
    assert memory.counts == [5, 4, 3]  # of 192, 232 and 332 bytes
    assert memory.nbytes == 5 * SIZE + 4 * (SIZE + 40) + 3 * (SIZE + 140)
    assert memory.ledger()["side"] == 4 * 40 + 3 * 140
    assert memory.exemplar_bytes(2) == [SIZE + 140] * 3


def test_a_memory_without_side_data_has_none_in_its_file() -> None:
    memory = filled(MemoryConfig(budget="1000B/class"), [0, 0])
    assert "side" not in memory.ledger()
    assert not {"side", "side_bytes"} & memory.state_arrays()[0].keys()


def test_side_data_are_thinned_with_their_exemplars() -> None:
    memory = filled(MemoryConfig(budget="2000B"), [8])
    assert memory.counts == [5]
    memory.expect(3, 8)
    for label in (1, 2):
        memory.add_class(label, f"class {label}", offers(label, 5, 8))
    assert memory.counts == [3, 3, 3]
    memory.remove_exemplar(1, 0)
    expected = [note(0, 0, 8), note(0, 1, 8), note(0, 2, 8), note(1, 1, 8), note(1, 2, 8)]
    assert memory.sides()[:5] == expected


def test_exemplars_with_short_side_data_stay_when_longer_ones_come() -> None:
    config = MemoryConfig(budget=f"{3 * SIZE + 12}B/class")  # full to the last byte
    memory = filled(config, [4, 10, 10])
    assert memory.counts == [3, 2, 2]


def test_what_was_removed_is_not_in_the_file(tmp_path: Path) -> None:
    memory = filled(MemoryConfig(budget="5images/class"), [40, 40], count=3)
    memory.save(tmp_path / "memory")
    assert note(1, 2, 40) in (tmp_path / "memory").read_bytes()
    memory.remove_exemplar(1, 2)
    memory.save(tmp_path / "memory")
    assert note(1, 2, 40) not in (tmp_path / "memory").read_bytes()


def test_a_class_grows_by_exemplars_with_as_long_side_data() -> None:
    memory = filled(MemoryConfig(budget="9images/class"), [4], count=2)
    memory.extend_class(0, offers(5, 2, 4))
    assert memory.sides() == [note(0, 0, 4), note(5, 0, 4), note(0, 1, 4), note(5, 1, 4)]
    before = memory.digest()
    with pytest.raises(InputError, match=r"must have 4 bytes of side data.*; got 6"):
        memory.extend_class(0, offers(6, 2, 6))
    assert memory.digest() == before


def test_side_data_of_another_length_than_was_told_are_refused() -> None:
    memory = Memory(MemoryConfig(), SHAPE, seed=0)
    memory.expect(1, 8)
    with pytest.raises(InputError, match=r"must have 8 bytes of side data.*; got 0"):
        memory.add_class(0, "bare", [Candidate(pixels(SHAPE, 0))])


def test_a_budget_that_cannot_hold_the_side_data_is_refused_before_training() -> None:
    memory = Memory(MemoryConfig(budget="1image/class"), SHAPE, seed=0)
    images = [pixels(SHAPE, 0)]
    memory.require_room_for(images, 1)
    for refused in (
        lambda: memory.require_room_for(images, 1, side_bytes=4),
        lambda: memory.require_room(1, side_bytes=4),
        lambda: memory.expect(1, 4),
    ):
        with pytest.raises(InputError, match='at least "196B/class"'):
            refused()


def test_a_plan_has_room_for_side_data() -> None:
    config = MemoryConfig(budget="2000images")
    rows = plan_memory(config, (32, 32, 3), [10, 100], side_bytes=lambda classes: 4 * classes)
    assert [row["bytes_per_exemplar"] for row in rows] == [3_112, 3_472]
    assert [row["exemplars_per_class"] for row in rows] == [197, 17]


def changing(name: str, change: Callable[[np.ndarray], Any]) -> Callable[[dict[str, Any]], None]:
    def apply(arrays: dict[str, Any]) -> None:
        arrays[name] = change(arrays[name])

    return apply


@pytest.mark.parametrize(
    "spoil",
    [
        changing("side", lambda side: side[:-1]),
        changing("side", lambda side: side[:0]),
        changing("side", lambda side: side.astype(np.int8)),
        changing("side_bytes", lambda sizes: sizes[:-1]),
        changing("side_bytes", lambda sizes: sizes - 100),
        changing("side_bytes", lambda sizes: sizes * 2**60),
        changing("side_bytes", lambda sizes: sizes.astype(np.float64)),
        lambda arrays: arrays.pop("side"),
        lambda arrays: arrays.pop("side_bytes"),
    ],
)
def test_impossible_side_data_are_refused(spoil: Callable[[dict[str, Any]], Any]) -> None:
    arrays, metadata = filled(MemoryConfig(budget="9images/class"), [4, 8]).state_arrays()
    spoil(arrays)
    with pytest.raises(InputError, match="does not hold a usable memory"):
        Memory.from_arrays(arrays, metadata)


def test_side_data_beyond_the_budget_are_refused() -> None:
    arrays, metadata = filled(MemoryConfig(budget="1000B/class"), [4]).state_arrays()
    arrays["side_bytes"] = np.array([400])
    arrays["side"] = np.zeros(5 * 400, np.uint8)
    with pytest.raises(InputError, match="more than 1,000"):
        Memory.from_arrays(arrays, metadata)
