from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remnant.errors import InputError
from remnant.memory import CODECS, Candidate, Memory, MemoryConfig, PatchesConfig
from remnant.memory.intake import take_turns
from tests.support.strategies import memory_configs, pixels

SHAPE = (8, 8, 3)


def flats(*levels: int) -> list[np.ndarray]:
    return [np.full(SHAPE, level, np.uint8) for level in levels]


def levels_of(memory: Memory, label: int) -> list[int]:
    return [exemplar.payload[0] for exemplar in memory.exemplars(label)]


def test_old_and_new_exemplars_take_turns_within_the_share() -> None:
    memory = Memory(MemoryConfig(budget="4images/class"), SHAPE, 0)
    memory.add_class(0, "a", map(Candidate, flats(1, 2, 3, 4)))
    assert memory.extend_class(0, map(Candidate, flats(11, 12, 13))) == 4
    assert levels_of(memory, 0) == [1, 11, 2, 12]
    assert memory.class_names == ["a"]


def test_equal_images_are_kept_once() -> None:
    memory = Memory(MemoryConfig(budget="9images/class"), SHAPE, 0)
    memory.add_class(0, "a", map(Candidate, flats(1, 2)))
    assert memory.extend_class(0, map(Candidate, flats(11, 2, 11))) == 3
    assert levels_of(memory, 0) == [1, 11, 2]


def test_a_class_with_room_left_keeps_all_of_both() -> None:
    memory = Memory(MemoryConfig(budget="9images/class"), SHAPE, 0)
    memory.add_class(0, "a", map(Candidate, flats(1, 2, 3)))
    assert memory.extend_class(0, map(Candidate, flats(11))) == 4
    assert levels_of(memory, 0) == [1, 11, 2, 3]
    assert memory.extend_class(0, []) == 4
    assert memory.room(0) == 9


def test_a_class_whose_images_are_replaced_keeps_its_name_and_leaves_the_others() -> None:
    memory = Memory(MemoryConfig(budget="6images"), SHAPE, 0, num_classes=2)
    memory.expect(2)
    for label, name in enumerate("ab"):
        memory.add_class(label, name, map(Candidate, flats(1, 2, 3)))
    assert memory.replace_class(0, map(Candidate, flats(7, 8, 9, 10))) == 3
    assert (levels_of(memory, 0), levels_of(memory, 1)) == ([7, 8, 9], [1, 2, 3])
    assert memory.class_names == ["a", "b"]
    with pytest.raises(InputError, match="must have at least one image"):
        memory.replace_class(0, [])
    with pytest.raises(InputError, match="must hold class 5"):
        memory.replace_class(5, map(Candidate, flats(1)))
    assert levels_of(memory, 0) == [7, 8, 9]


def test_images_are_read_only_as_far_as_they_fit() -> None:
    memory = Memory(MemoryConfig(budget="4images/class"), SHAPE, 0)
    memory.add_class(0, "a", map(Candidate, flats(1, 2, 3, 4)))
    endless = (image for level in range(100, 256) for image in flats(level))
    memory.extend_class(0, map(Candidate, endless))
    assert next(endless)[0, 0, 0] == 102


def test_the_old_ones_keep_their_form() -> None:
    memory = Memory(MemoryConfig(budget="2000B/class", codec=PatchesConfig()), SHAPE, 0)
    memory.add_class(0, "a", map(Candidate, [pixels(SHAPE, seed) for seed in range(5)]))
    before = memory.exemplars(0)
    memory.extend_class(0, map(Candidate, [pixels(SHAPE, seed) for seed in range(5, 10)]))
    assert memory.exemplars(0)[::2] == before


def test_under_a_total_budget_an_extended_class_takes_what_others_leave() -> None:
    memory = Memory(MemoryConfig(budget="10images"), SHAPE, 0)
    memory.expect(2)
    memory.add_class(0, "a", map(Candidate, flats(1, 2)))
    memory.add_class(1, "b", map(Candidate, flats(21, 22)))
    assert memory.extend_class(0, map(Candidate, flats(*range(30, 40)))) == 8
    assert memory.counts == [8, 2]
    memory.extend_class(1, map(Candidate, flats(*range(50, 60))))
    assert memory.counts == [5, 5]


def test_only_a_stored_class_is_extended() -> None:
    memory = Memory(MemoryConfig(budget="4images/class"), SHAPE, 0)
    with pytest.raises(InputError, match=r"must hold class 0; it holds \[\]"):
        memory.extend_class(0, map(Candidate, flats(1)))
    memory.add_class(0, "a", map(Candidate, flats(1)))
    with pytest.raises(InputError, match="of shape"):
        memory.extend_class(0, map(Candidate, [np.zeros((4, 4, 3), np.uint8)]))
    assert levels_of(memory, 0) == [1]


def test_a_class_unseen_lets_the_others_move_up() -> None:
    memory = Memory(MemoryConfig(budget="4images/class"), SHAPE, 0)
    for label, name in enumerate("abc"):
        memory.add_class(label, name, map(Candidate, flats(label)))
    memory.unsee_class(1)
    assert memory.labels == [0, 1]
    assert memory.class_names == ["a", "c"]
    assert levels_of(memory, 1) == [2]
    assert memory.num_seen_classes == 2
    memory.add_class(2, "d", map(Candidate, flats(9)))
    with pytest.raises(InputError, match="classes 0 to 2; got 3"):
        memory.unsee_class(3)


@settings(max_examples=25, deadline=None)
@given(
    memory_configs(),
    st.sampled_from([name for name in CODECS if name not in ("raw", "patches")]),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 6)), min_size=1, max_size=6),
)
def test_no_sequence_of_extensions_exceeds_the_budget(
    config: MemoryConfig, codec: str, is_coded: bool, extensions: list[tuple[int, int]]
) -> None:
    values = config.model_dump()
    if is_coded:
        values |= {"codec": codec, "budget": "3000B"}
    memory = Memory(MemoryConfig.model_validate(values), SHAPE, 0, num_classes=3)
    memory.expect(3)
    for label in range(3):
        memory.add_class(label, str(label), map(Candidate, [pixels(SHAPE, label)]))
    for index, (label, count) in enumerate(extensions):
        before = memory.counts[label]
        after = memory.extend_class(
            label, map(Candidate, [pixels(SHAPE, 10 * index + k) for k in range(count)])
        )
        assert 1 <= after <= before + count
        assert memory.nbytes <= memory.budget_bytes
        assert Memory.from_arrays(*memory.state_arrays()).digest() == memory.digest()


def test_turns_go_on_with_what_is_left() -> None:
    assert "".join(take_turns("abc", "x")) == "axbc"
    assert "".join(take_turns("", "xy")) == "xy"


def test_an_image_that_is_stored_is_not_stored_again() -> None:
    memory = Memory(MemoryConfig(budget="8images/class"), SHAPE, 0)
    memory.add_class(0, "zero", map(Candidate, flats(1, 2, 3)))
    before = memory.digest()
    assert memory.extend_class(0, map(Candidate, flats(3, 1, 2))) == 3
    assert memory.digest() == before
    assert memory.extend_class(0, map(Candidate, flats(2, 4))) == 4


def test_what_is_taken_out_and_put_back_is_where_it_was() -> None:
    memory = Memory(MemoryConfig(budget="6images/class"), SHAPE, 0)
    memory.add_class(0, "a", map(Candidate, flats(1, 2, 3, 4, 5)))
    before, digest = memory.exemplars(0), memory.digest()
    memory.take_out(0, (1, 3))
    assert memory.exemplars(0) == (before[0], before[2], before[4])
    memory.insert(0, {3: before[3], 1: before[1]})
    assert memory.digest() == digest


def test_what_is_put_between_costs_the_worst_of_a_full_class() -> None:
    memory = Memory(MemoryConfig(budget="4images/class"), SHAPE, 0)
    memory.add_class(0, "a", map(Candidate, flats(1, 2, 3, 4)))
    before = memory.exemplars(0)
    (new,) = memory.encode_more(0, map(Candidate, flats(2, 9)))  # one of them is stored
    memory.insert(0, {1: new})
    assert memory.exemplars(0) == (before[0], new, before[1], before[2])
    assert memory.nbytes <= memory.budget_bytes


def test_more_images_of_a_class_are_read_one_by_one_as_they_are_asked_for() -> None:
    memory = Memory(MemoryConfig(budget="4images/class"), SHAPE, 0)
    memory.add_class(0, "a", map(Candidate, flats(1)))
    left = iter(flats(1, 2, 3, 4))
    new = memory.encode_more(0, map(Candidate, left))
    assert next(new).payload[0] == 2  # the first is stored
    assert [image.flat[0] for image in left] == [3, 4]
    assert memory.counts == [1]
    unknown = memory.encode_more(5, map(Candidate, flats(1)))
    with pytest.raises(InputError, match="must hold class 5"):
        next(unknown)
