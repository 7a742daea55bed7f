from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from remnant.memory.class_sizes import ClassSizes

SIZES = st.integers(0, 5) | st.integers(0, 60) | st.integers(0, 1 << 40)
CHANGES = st.lists(st.tuples(st.integers(0, 5), st.none() | SIZES), max_size=20)


def filled(sizes: Sequence[int]) -> ClassSizes:
    found = ClassSizes()
    for label, size in enumerate(sizes):
        found.put(label, size)
    return found


def level_of(sizes: Sequence[int], num_to_come: int, total: int, step: int) -> int:
    return filled(sizes).level(num_to_come, total, step)


# -------------------------------------------------------------------------------------- the level


def raise_slowly(sizes: list[int], num_to_come: int, total: int) -> int:
    """Pour byte by byte: the last level at which what all classes take still fits."""
    level = 0
    while sum(min(size, level + 1) for size in sizes) + num_to_come * (level + 1) <= total:
        level += 1
        if not num_to_come and level >= max(sizes, default=0):
            break
    return level


@given(st.lists(st.integers(0, 60), max_size=6), st.integers(0, 4), st.integers(1, 200))
@settings(deadline=None)
def test_the_level_is_where_slow_pouring_ends(
    sizes: list[int], num_to_come: int, total: int
) -> None:
    level = level_of(sizes, num_to_come, total, step=0)
    expected = raise_slowly(sizes, num_to_come, total)
    assert [min(size, level) for size in sizes] == [min(size, expected) for size in sizes]
    if num_to_come:
        assert level == expected


@given(st.lists(st.integers(0, 30), max_size=6), st.integers(0, 4), st.integers(1, 900))
@settings(deadline=None)
def test_classes_cut_to_the_level_of_whole_exemplars_fit(
    counts: list[int], num_to_come: int, total: int
) -> None:
    step = 7
    level = level_of([step * count for count in counts], num_to_come, total, step)
    kept = [min(count, level // step) for count in counts]
    assert step * (sum(kept) + num_to_come * (level // step)) <= total
    assert level >= total // max(1, len(counts) + num_to_come)


@given(st.integers(1, 40), st.integers(0, 40), st.integers(1, 5_000))
@settings(deadline=None)
def test_equal_classes_of_equal_exemplars_get_the_published_share(
    num_stored: int, num_to_come: int, num_exemplars: int
) -> None:
    num_classes, step = num_stored + num_to_come, 13
    share = num_exemplars // num_classes
    for stored in (share, share + 1, num_exemplars):  # as many as the share, one more, all
        level = level_of([step * stored] * num_stored, num_to_come, step * num_exemplars, step)
        assert level // step == share


def pour_in_turn(sizes: Sequence[int], num_to_come: int, total: int, step: int) -> int:
    """Visit the classes from the smallest on: whoever needs less than a share leaves the rest."""
    rest, ascending = total, sorted(sizes)
    for index, size in enumerate(ascending):
        num_sharing = len(ascending) - index + num_to_come
        if size + step > rest // num_sharing:
            return rest // num_sharing
        rest -= size
    return rest // num_to_come if num_to_come else total


@given(
    st.lists(SIZES, max_size=9), st.integers(0, 4), SIZES, st.sampled_from([0, 1, 3, 7, 1 << 20])
)
@settings(deadline=None)
def test_the_level_is_that_of_visiting_every_class(
    sizes: list[int], num_to_come: int, total: int, step: int
) -> None:
    expected = pour_in_turn(sizes, num_to_come, total, step)
    assert level_of(sizes, num_to_come, total, step) == expected


# --------------------------------------------------------------------------------------- changes


@given(CHANGES, SIZES)
@settings(deadline=None)
def test_any_sequence_of_changes_leaves_what_was_put_last(
    changes: list[tuple[int, int | None]], level: int
) -> None:
    found, expected = ClassSizes(), {}
    for label, size in changes:
        found.put(label, size)
        expected[label] = size
    stored = {label: size for label, size in expected.items() if size is not None}
    assert (len(found), found.total) == (len(stored), sum(stored.values()))
    assert found.largest == max(stored.values(), default=0)
    assert set(found.above(level)) == {label for label, size in stored.items() if size > level}
    assert vars(found) == vars(filled_by_label(stored))  # nothing of earlier sizes is left


def filled_by_label(stored: dict[int, int]) -> ClassSizes:
    found = ClassSizes()
    for label, size in stored.items():
        found.put(label, size)
    return found


def test_a_change_tried_is_taken_back() -> None:
    found, same = filled([3, 5]), filled([3, 5])
    with found.changed(1, None):
        assert (len(found), found.total) == (1, 3)
    with found.changed(2, 9):
        assert found.largest == 9
    with found.changed(None, None):
        assert found.total == 8
    assert vars(found) == vars(same)
