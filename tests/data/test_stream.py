from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from remnant.data import DATASETS
from remnant.data.class_orders import PUBLISHED_ORDERS, named_order
from remnant.data.stream import StreamConfig, TaskStream, resolve_order, resolve_tasks
from remnant.errors import InputError
from remnant.images import ArrayImages, ImageSet

NAMES = ("ant", "bee", "cat", "dog", "elk")

SEED_1993 = """
68 56 78 8 23 84 90 65 74 76 40 89 3 92 55 9 26 80 43 38 58 70 77 1 85 19 17 50 28 53 13 81 45 82
6 59 83 16 15 44 91 41 72 60 79 52 20 10 31 54 37 95 14 71 96 98 97 2 64 66 42 22 35 86 24 34 87
21 99 0 88 27 18 94 11 12 47 25 30 46 62 69 36 61 7 63 75 5 32 4 51 48 73 93 39 67 29 49 57 33
"""


def image_set(labels: list[int]) -> ImageSet:
    """Images of class k are filled with value k; ids count from 100."""
    classes = torch.tensor(labels, dtype=torch.int64)
    pixels = classes.to(torch.uint8).view(-1, 1, 1, 1).expand(-1, 2, 2, 3).contiguous()
    return ImageSet(ArrayImages(pixels), classes, torch.arange(100, 100 + len(labels)))


def values(images: ImageSet) -> list[int]:
    return images.images.read(torch.arange(len(images)))[:, 0, 0, 0].tolist()


def tasks_of(total: int, settings: dict[str, object]) -> list[list[int]]:
    """Tasks of a data set with `total` classes, by itself in two tasks in identity order."""
    facts = replace(DATASETS["digits"].facts, num_classes=total, default_num_tasks=2)
    return resolve_tasks(StreamConfig.model_validate(settings), facts)


def test_without_a_number_of_tasks_they_are_as_equal_as_they_can_be() -> None:
    assert [len(task) for task in tasks_of(5, {})] == [3, 2]
    assert [len(task) for task in tasks_of(1, {})] == [1]


# ------------------------------------------------------------------------------------------ orders


@pytest.mark.parametrize("name", sorted(PUBLISHED_ORDERS))
def test_a_published_order_holds_each_of_100_classes_once(name: str) -> None:
    assert sorted(PUBLISHED_ORDERS[name]) == list(range(100))


def test_published_orders_begin_and_end_as_published() -> None:
    ends = {name: (*order[:3], *order[-2:]) for name, order in PUBLISHED_ORDERS.items()}
    assert ends == {
        "icarl": (87, 0, 52, 35, 39),
        "dytox-2": (58, 30, 93, 64, 61),
        "dytox-3": (71, 54, 45, 43, 11),
        "der-0": (62, 54, 84, 59, 52),
    }


def test_seed_1993_gives_the_published_lists_of_100_and_1000_classes() -> None:
    assert named_order("seed-1993", 100) == [int(word) for word in SEED_1993.split()]
    assert named_order("seed-1993", 1000)[:10] == [54, 7, 894, 512, 126, 337, 988, 11, 284, 493]


def test_the_icarl_order_is_seed_1993_after_100_shuffles_of_500_images() -> None:
    draws = np.random.RandomState(1993)
    for _ in range(100):
        draws.shuffle(np.arange(500))
    assert draws.permutation(100).tolist() == named_order("icarl", 100)


@given(seed=st.integers(0, 2**40), num_classes=st.integers(1, 50))
def test_a_seeded_order_is_a_repeatable_permutation(seed: int, num_classes: int) -> None:
    order = named_order(f"seed:{seed}", num_classes)
    assert sorted(order) == list(range(num_classes))
    assert order == named_order(f"seed:{seed}", num_classes)


def test_different_seeds_give_different_orders() -> None:
    assert named_order("seed:1", 100) != named_order("seed:2", 100)


def test_a_published_order_refuses_another_number_of_classes() -> None:
    with pytest.raises(InputError, match="100 classes; the data set has 10"):
        named_order("icarl", 10)


def test_an_unknown_order_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValidationError, match=r"got 'icarrl'\. Did you mean icarl\?"):
        StreamConfig(order="icarrl")


def test_the_default_order_is_the_data_sets_own() -> None:
    assert resolve_order(StreamConfig(), 100, "icarl")[:3] == [87, 0, 52]
    assert resolve_order(StreamConfig(order="identity"), 100, "icarl")[:3] == [0, 1, 2]


def test_an_explicit_order_may_leave_classes_out() -> None:
    assert resolve_order(StreamConfig(order=(4, 1, 3)), 5, "identity") == [4, 1, 3]


def test_num_classes_keeps_the_first_of_the_order() -> None:
    assert resolve_order(StreamConfig(num_classes=2), 100, "icarl") == [87, 0]


def test_a_stream_config_survives_json() -> None:
    config = StreamConfig(order=(2, 0, 1), task_sizes=(2, 1))
    assert StreamConfig.model_validate_json(config.model_dump_json()) == config


# ------------------------------------------------------------------------------------------- tasks


def test_without_a_split_the_data_sets_number_of_tasks_is_used() -> None:
    assert tasks_of(4, {}) == [[0, 1], [2, 3]]


def test_tasks_of_equal_unequal_and_explicit_classes() -> None:
    assert tasks_of(6, {"num_tasks": 3}) == [[0, 1], [2, 3], [4, 5]]
    assert tasks_of(6, {"task_sizes": [1, 3, 2]}) == [[0], [1, 2, 3], [4, 5]]
    assert tasks_of(6, {"task_classes": [[5], [0, 3]]}) == [[5], [0, 3]]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.integers(0, 9))
def test_tasks_partition_the_order(sizes: list[int], seed: int) -> None:
    total = sum(sizes)
    tasks = tasks_of(total, {"order": f"seed:{seed}", "task_sizes": sizes})
    assert [len(task) for task in tasks] == sizes
    assert [index for task in tasks for index in task] == named_order(f"seed:{seed}", total)


@pytest.mark.parametrize(("asked", "nearest"), [(30, 25), (3, 2), (80, 100), (200, 100)])
def test_a_number_of_tasks_that_does_not_divide_names_the_nearest(asked: int, nearest: int) -> None:
    with pytest.raises(InputError, match=rf"got {asked}\. The nearest that works is {nearest};"):
        tasks_of(100, {"num_tasks": asked})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_tasks": 2, "task_sizes": [1]}, "stream.num_tasks and stream.task_sizes. Keep one"),
        ({"task_classes": [[0], [1, 0]]}, "each class once; got 0 twice"),
        ({"task_classes": [[0], []]}, "every task at least one class"),
        ({"task_classes": [[0]], "order": "icarl"}, "Remove stream.order"),
        ({"task_classes": [[0]], "num_classes": 1}, "Remove stream.order and stream.num_classes"),
        ({"order": [3, 1, 3]}, "each class once; got 3 twice"),
        ({"order": []}, "at least one class index"),
        ({"num_tasks": 0}, "greater than 0"),
        ({"task_sizes": [2, 0]}, "greater than 0"),
        ({"task_sizes": []}, "at least 1 item"),
        ({"task_size": [2]}, "Extra inputs"),
    ],
)
def test_a_contradictory_split_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        StreamConfig.model_validate(settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task_sizes": [4, 5]}, "the 10 classes of the stream; they add up to 9"),
        ({"num_classes": 11}, "at most 10"),
        ({"order": [0, 10]}, "from 0 to 9; got 10"),
        ({"order": [0, -1]}, "from 0 to 9; got -1"),
        ({"task_classes": [[12]]}, "stream.task_classes must hold class indices from 0 to 9"),
    ],
)
def test_a_split_that_the_data_set_cannot_give_is_refused(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        tasks_of(10, settings)


# ----------------------------------------------------------------------------------------- streams


def small_stream() -> TaskStream:
    train = image_set([0, 1, 2, 3, 4, 4, 3, 2, 1, 0])
    test = image_set([4, 3, 2, 1, 0, 3])
    return TaskStream(train, test, NAMES, [[3, 0], [4]])


def test_a_task_holds_the_images_of_its_classes_alone() -> None:
    first, second = small_stream()
    assert values(first.train) == [0, 3, 3, 0]
    assert first.train.ids.tolist() == [100, 103, 106, 109]
    assert values(second.train) == [4, 4]


def test_labels_are_positions_in_the_class_order() -> None:
    first, second = small_stream()
    assert first.train.labels.tolist() == [1, 0, 0, 1]
    assert second.train.labels.tolist() == [2, 2]
    assert first.train.labels.dtype == torch.int64


def test_a_task_counts_its_old_and_new_classes() -> None:
    first, second = small_stream()
    assert (first.index, first.num_tasks, first.num_old_classes) == (0, 2, 0)
    assert (second.index, second.num_tasks, second.num_old_classes) == (1, 2, 2)
    assert (first.class_names, second.class_names) == (("dog", "ant"), ("elk",))
    assert (list(first.new_labels), list(second.new_labels)) == ([0, 1], [2])


def test_a_stream_tells_its_order_names_and_sizes() -> None:
    stream = small_stream()
    assert stream.order == [3, 0, 4]
    assert stream.class_names == ["dog", "ant", "elk"]
    assert stream.task_sizes == [2, 1]
    assert stream.task_of_label == [0, 0, 1]
    assert len(stream) == 2


def test_a_task_is_found_by_index_from_either_end() -> None:
    stream = small_stream()
    assert stream[-1].class_names == stream[1].class_names == ("elk",)
    with pytest.raises(IndexError):
        stream[2]


def test_seen_tests_hold_every_class_seen_and_no_other() -> None:
    stream = small_stream()
    seen = stream.seen_tests(stream[0])
    assert (values(seen), seen.labels.tolist()) == ([3, 3, 0], [0, 0, 1])
    assert seen.ids.tolist() == [101, 105, 104]


@given(st.integers(0, 1000))
def test_seen_tests_begin_with_those_of_the_task_before(seed: int) -> None:
    shuffled = torch.randperm(20, generator=torch.Generator().manual_seed(seed)) % 5
    images = image_set(shuffled.tolist())
    stream = TaskStream(images, images, NAMES, [[2], [0, 4], [1]])
    earlier: list[int] = []
    for task in stream:
        seen = stream.seen_tests(task)
        assert seen.ids.tolist()[: len(earlier)] == earlier
        assert [stream.order[label] for label in seen.labels.tolist()] == values(seen)
        assert len(seen) == 4 * task.num_seen_classes
        earlier = seen.ids.tolist()


class SpiedImages(ArrayImages):
    """Records which images were selected."""

    touched: list[int]

    def select(self, positions: Tensor) -> ArrayImages:
        self.touched.extend(self.array[positions][:, 0, 0, 0].tolist())
        return super().select(positions)


def test_images_of_later_tasks_are_never_touched() -> None:
    plain = image_set([0, 1, 2, 3, 4])
    spied = SpiedImages(plain.images.read(torch.arange(5)))
    object.__setattr__(spied, "touched", [])
    images = ImageSet(spied, plain.labels, plain.ids)
    stream = TaskStream(images, images, NAMES, [[1, 2], [0], [3]])
    tasks = iter(stream)
    stream.seen_tests(next(tasks))
    assert set(spied.touched) == {1, 2}
    stream.seen_tests(next(tasks))
    assert set(spied.touched) == {0, 1, 2}


def test_a_class_that_the_data_lacks_is_refused() -> None:
    with pytest.raises(InputError, match="has class 5; the data has 5 classes, counted from 0"):
        TaskStream(image_set([0]), image_set([0]), NAMES, [[0], [5]])


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ([0, 1], [0, 1, 4], "needs training images; there is none of elk"),
        ([0, 1, 4], [1, 4], "needs test images; there is none of ant"),
    ],
)
def test_a_class_without_images_is_named(train: list[int], test: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TaskStream(image_set(train), image_set(test), NAMES, [[0, 1], [4]])
