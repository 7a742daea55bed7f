from __future__ import annotations

import zlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from remnant.errors import InputError
from remnant.memory import CODECS, Candidate, Memory, MemoryConfig, PatchesConfig
from remnant.memory.codecs.webp import WebpConfig
from remnant.planning.memory_table import plan_memory
from tests.support.deflate import DeflateCodec
from tests.support.strategies import memory_configs, pixels

CIFAR = (32, 32, 3)
SMALL = (8, 8, 3)


def some_images(count: int, shape: tuple[int, int, int] = SMALL, seed: int = 0) -> list[np.ndarray]:
    return [pixels(shape, seed + index) for index in range(count)]


@pytest.fixture
def deflate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CODECS, "raw", DeflateCodec)


# ------------------------------------------------------------------------------------------ figures


@pytest.mark.parametrize(
    ("config", "count", "used"),
    [
        (MemoryConfig(budget="60KiB/class"), 20, 61_440),
        (MemoryConfig(budget="20images/class"), 20, 61_440),
        (MemoryConfig(budget="61439B/class"), 19, 19 * 3_072),
        (MemoryConfig(codec=PatchesConfig()), 79, 79 * 776),
        (MemoryConfig(codec=PatchesConfig(), count_overhead=False), 80, 61_440),
    ],
)
def test_sixty_kibibytes_hold_the_exemplars_of_the_specification(
    config: MemoryConfig, count: int, used: int
) -> None:
    memory = Memory(config, CIFAR, seed=0)
    assert memory.capacity(1) == count
    assert memory.add_class(0, "apple", map(Candidate, some_images(100, CIFAR))) == count
    assert memory.nbytes == used
    (row,) = plan_memory(config, CIFAR, [1])
    assert (row["exemplars_per_class"], row["bytes_per_class"]) == (count, used)


def test_a_plan_of_a_fixed_total_shrinks_as_published() -> None:
    rows = plan_memory(MemoryConfig(budget="2000images"), CIFAR, range(10, 101, 10))
    counts = [row["exemplars_per_class"] for row in rows]
    assert counts == [200, 100, 66, 50, 40, 33, 28, 25, 22, 20]
    assert all(row["budget_bytes"] == 6_144_000 for row in rows)
    assert rows[2]["total_bytes"] == 66 * 30 * 3_072


def test_a_plan_knows_that_a_class_has_only_so_many_images() -> None:
    (row,) = plan_memory(MemoryConfig(budget="2000images"), CIFAR, [2], available_per_class=500)
    assert (row["exemplars_per_class"], row["total_bytes"]) == (500, 1_000 * 3_072)


@pytest.mark.parametrize(
    ("config", "smallest"),
    [
        (MemoryConfig(budget="2000B/class"), "3072B/class"),
        (MemoryConfig(budget="2000B"), "3072B"),
        (MemoryConfig(budget="770B/class", codec=PatchesConfig()), "776B/class"),
        (
            MemoryConfig(budget="1B/class", codec=PatchesConfig(), count_overhead=False),
            "768B/class",
        ),
    ],
)
def test_a_budget_below_one_exemplar_is_refused_with_the_smallest_that_works(
    config: MemoryConfig, smallest: str
) -> None:
    with pytest.raises(InputError, match=f'at least "{smallest}"'):
        Memory(config, CIFAR, seed=0)
    Memory(config.model_copy(update={"budget": smallest}), CIFAR, seed=0)


def test_a_budget_below_the_smallest_of_some_coded_images_is_refused() -> None:
    config = MemoryConfig(budget="20B/class", codec=WebpConfig())
    images = [*some_images(2, CIFAR), np.zeros(CIFAR, np.uint8)]
    with pytest.raises(InputError, match=r'one exemplar \(\d+ bytes\).* at least "\d+B/class"'):
        Memory(config, CIFAR, seed=0).require_room_for(images, 1)
    roomy = Memory(config.model_copy(update={"budget": "100B/class"}), CIFAR, seed=0)
    roomy.require_room_for(images, 1)  # the black one fits
    with pytest.raises(InputError, match="one exemplar"):
        roomy.require_room_for(images[:2], 1)


@pytest.mark.parametrize("unit", ["B/class", "B"])
def test_a_budget_that_was_advised_holds_every_image_that_was_tried(unit: str) -> None:
    images = [*some_images(1, CIFAR), np.zeros(CIFAR, np.uint8)]

    def stored(budget: str) -> Memory:
        memory = Memory(MemoryConfig(budget=budget, codec=WebpConfig()), CIFAR, seed=0)
        memory.require_room_for(images, 2)
        memory.expect(2)
        for label, image in enumerate(images):
            memory.add_class(label, str(label), [Candidate(image)])
        return memory

    with pytest.raises(InputError, match=r"got 1 byte\. Raise") as told:
        stored(f"1{unit}")
    assert stored(str(told.value).split('"')[1]).counts == [1, 1]
    with pytest.raises(InputError, match=r"its share is 100 bytes\. Raise") as told:
        stored("100B/class" if "class" in unit else "200B")
    assert stored(str(told.value).split('"')[1]).counts == [1, 1]


def test_a_total_too_small_for_the_last_task_is_refused_in_the_plan() -> None:
    with pytest.raises(InputError, match='at least "30720B"'):
        plan_memory(MemoryConfig(budget="9images"), CIFAR, [5, 10])


def test_the_ledger_separates_what_is_counted_from_what_is_aligned() -> None:
    memory = Memory(MemoryConfig(codec=PatchesConfig()), CIFAR, seed=0)
    memory.add_class(0, "apple", map(Candidate, some_images(10, CIFAR)))
    ledger = memory.ledger()
    assert (ledger["payload"], ledger["positions"], ledger["lengths"]) == (7_680, 80, 0)
    assert ledger["labels"] == 0
    assert ledger["fixed"]["names"] == len('["apple"]')
    assert memory.nbytes == 7_760


# -------------------------------------------------------------------------------------- behaviour


def test_the_memory_gives_back_images_labels_and_ranks() -> None:
    memory = Memory(MemoryConfig(budget="3images/class"), SMALL, seed=0)
    first, second = some_images(2), some_images(5, seed=50)
    memory.add_class(4, "late", map(Candidate, second))
    memory.add_class(1, "early", map(Candidate, first))
    replay = memory.images()
    assert replay is not None
    assert replay.is_known is None
    assert replay.labels.tolist() == [1, 1, 4, 4, 4]
    assert replay.ids.tolist() == [0, 1, 2, 3, 4]
    expected = np.stack([*first, *second[:3]])
    assert np.array_equal(replay.images.read(torch.arange(5)).numpy(), expected)
    assert (memory.labels, memory.class_names, memory.counts) == ([1, 4], ["early", "late"], [2, 3])


def test_an_empty_memory_has_no_images() -> None:
    assert Memory(MemoryConfig(), SMALL, seed=0).images() is None


def test_unknown_pixels_take_the_mean_colour_of_the_known_or_the_colour_given() -> None:
    image = np.zeros(SMALL, dtype=np.uint8)
    image[:] = [10, 20, 30]
    config = MemoryConfig(codec=PatchesConfig())
    memory = Memory(config, SMALL, seed=0)
    memory.add_class(0, "plain", map(Candidate, [image]))
    replay, painted = memory.images(), memory.images(fill=(1, 2, 3))
    assert replay is not None
    assert painted is not None
    assert replay.is_known is not None
    assert replay.is_known.shape == (1, 2, 2)
    assert replay.is_known.sum() == 1
    position = torch.tensor([0])
    assert np.array_equal(replay.images.read(position)[0].numpy(), image)
    is_known = replay.is_known[0].repeat_interleave(4, 0).repeat_interleave(4, 1)
    shown = painted.images.read(position)[0]
    assert (shown[is_known] == torch.tensor([10, 20, 30])).all()
    assert (shown[~is_known] == torch.tensor([1, 2, 3])).all()


def test_masks_differ_between_exemplars_and_classes_and_follow_the_seed() -> None:
    def bitmaps(seed: int) -> list[bytes]:
        memory = Memory(MemoryConfig(codec=PatchesConfig()), CIFAR, seed)
        for label in range(2):
            memory.add_class(label, str(label), map(Candidate, [pixels(CIFAR, 0)] * 10))
        return [exemplar.positions for label in range(2) for exemplar in memory.exemplars(label)]

    assert len(set(bitmaps(0))) == 20
    assert bitmaps(0) == bitmaps(0)
    assert bitmaps(0) != bitmaps(1)


def test_images_beyond_the_share_are_never_read() -> None:
    memory = Memory(MemoryConfig(budget="2images/class"), SMALL, seed=0)
    images = iter(some_images(3))
    memory.add_class(0, "one", map(Candidate, images))
    assert len(list(images)) == 1


def test_a_class_that_fails_leaves_the_memory_as_it_was() -> None:
    memory = Memory(MemoryConfig(budget="4images"), SMALL, seed=0)
    memory.add_class(0, "good", map(Candidate, some_images(4)))
    before = memory.digest()
    with pytest.raises(InputError, match="shape"):
        memory.add_class(1, "bad", map(Candidate, [*some_images(1), pixels(CIFAR, 0)]))
    with pytest.raises(InputError, match="at least one image"):
        memory.add_class(1, "none", [])
    with pytest.raises(InputError, match="label of its own"):
        memory.add_class(0, "twice", map(Candidate, some_images(1)))
    with pytest.raises(InputError, match="valid text"):
        memory.add_class(1, "\ud800", map(Candidate, some_images(1)))
    assert memory.digest() == before


def test_shrinking_keeps_the_best_ranked() -> None:
    memory = Memory(MemoryConfig(budget="9images"), SMALL, seed=0)
    memory.add_class(0, "one", map(Candidate, some_images(9)))
    before = memory.exemplars(0)
    for label, count in ((1, 4), (2, 3), (3, 2), (4, 1)):
        memory.add_class(label, str(label), map(Candidate, some_images(9)))
        assert memory.exemplars(0) == before[:count]


def test_removing_names_what_is_there() -> None:
    memory = Memory(MemoryConfig(), SMALL, seed=0)
    memory.add_class(3, "cat", map(Candidate, some_images(2)))
    with pytest.raises(InputError, match=r"holds \[3\]"):
        memory.remove_class(0)
    with pytest.raises(InputError, match="0 to 1"):
        memory.remove_exemplar(3, 2)


@pytest.mark.usefixtures("deflate")
def test_payloads_of_varying_length_pay_for_their_lengths() -> None:
    flat = [np.full(SMALL, value, dtype=np.uint8) for value in range(40)]
    size = len(zlib.compress(flat[0].tobytes()))
    memory = Memory(MemoryConfig(budget=f"{10 * (size + 2)}B/class"), SMALL, seed=0)
    assert memory.capacity(1) is None
    assert memory.add_class(0, "flat", map(Candidate, flat)) == 10
    assert memory.ledger()["lengths"] == 20
    assert memory.nbytes == memory.budget_bytes
    replay = memory.images()
    assert replay is not None
    assert replay.images.read(torch.tensor([7]))[0].unique().tolist() == [7]
    (row,) = plan_memory(memory.config, SMALL, [1])
    assert row["exemplars_per_class"] is row["total_bytes"] is None


@pytest.mark.usefixtures("deflate")
def test_a_varying_payload_that_exceeds_its_share_is_refused() -> None:
    memory = Memory(MemoryConfig(budget="30B/class"), SMALL, seed=0)
    with pytest.raises(InputError, match="its share is 30"):
        memory.add_class(0, "noise", map(Candidate, some_images(1)))


# -------------------------------------------------------------------------------------- properties


@given(memory_configs(), st.lists(st.integers(1, 8), min_size=1, max_size=6))
@settings(max_examples=30, deadline=None)
def test_a_class_fills_its_share_or_runs_out_of_images(
    config: MemoryConfig, counts: list[int]
) -> None:
    memory = Memory(config, SMALL, seed=0)
    memory.expect(len(counts))
    for label, count in enumerate(counts):
        room = memory.room() or 0
        assert room >= (memory.capacity(len(counts)) or 0)
        assert memory.add_class(label, str(label), map(Candidate, some_images(count))) == min(
            count, room
        )
