"""Claims about which training images are used and which are set aside."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from remnant.data import DataConfig, check_dataset, load_dataset
from remnant.data.splits import first_per_class, hold_out
from remnant.errors import InputError
from remnant.images import ArrayImages, ImageSet


def image_set(counts: list[int]) -> ImageSet:
    """Classes dealt in turn; ids fall, so that order and id differ."""
    labels = torch.tensor(
        [label for turn in range(max(counts)) for label, n in enumerate(counts) if turn < n]
    )
    images = ArrayImages(torch.zeros(len(labels), 1, 1, 3, dtype=torch.uint8))
    return ImageSet(images, labels, torch.arange(len(labels)).flip(0) + 100)


def names(counts: list[int]) -> list[str]:
    return [f"class {label}" for label in range(len(counts))]


COUNTS = st.lists(st.integers(2, 30), min_size=1, max_size=5)
RATIOS = st.floats(0.01, 0.99)


@settings(deadline=None)
@given(counts=COUNTS, ratio=RATIOS)
def test_training_and_validation_images_partition_every_class(
    counts: list[int], ratio: float
) -> None:
    whole = image_set(counts)
    train, held = hold_out(whole, ratio, names(counts))
    assert sorted(train.ids.tolist() + held.ids.tolist()) == sorted(whole.ids.tolist())
    for label, count in enumerate(counts):
        num_held = int((held.labels == label).sum())
        assert 1 <= num_held < count
        assert abs(num_held - count * ratio) <= 1


@settings(deadline=None)
@given(counts=COUNTS, ratios=st.tuples(RATIOS, RATIOS))
def test_larger_ratio_holds_out_what_a_smaller_one_does(
    counts: list[int], ratios: tuple[float, float]
) -> None:
    few, many = (
        set(hold_out(image_set(counts), ratio, names(counts))[1].ids.tolist())
        for ratio in sorted(ratios)
    )
    assert few <= many


def test_split_of_a_class_does_not_depend_on_the_others() -> None:
    alone, _ = hold_out(image_set([20]), 0.3, names([20]))
    among, _ = hold_out(image_set([20, 7]), 0.3, names([20, 7]))
    places = image_set([20, 7]).of_class(0).ids.tolist()
    kept = [places.index(i) for i in among.of_class(0).ids.tolist()]
    assert kept == [image_set([20]).ids.tolist().index(i) for i in alone.ids.tolist()]


def test_single_image_cannot_be_held_out() -> None:
    with pytest.raises(InputError, match='class "class 1" must have at least 2'):
        hold_out(image_set([2, 1]), 0.1, names([2, 1]))


def test_first_images_of_a_class_are_those_with_the_lowest_ids() -> None:
    kept = first_per_class(image_set([4, 4]), 2, names([4, 4]))
    assert sorted(kept.ids.tolist()) == [100, 101, 102, 103]
    assert kept.labels.bincount().tolist() == [2, 2]


def test_holdout_of_a_loaded_set_comes_out_of_its_training_images() -> None:
    whole = load_dataset(DataConfig(dataset="digits"))
    split = load_dataset(DataConfig(dataset="digits", images_per_class=20, holdout_ratio=0.25))
    assert split.train.labels.bincount().tolist() == [15] * 10
    assert split.test.labels.bincount().tolist() == [5] * 10
    assert set(split.test.ids.tolist()) <= set(whole.train.ids.tolist())
    assert not set(split.test.ids.tolist()) & set(split.train.ids.tolist())


def test_check_of_digits_counts_them() -> None:
    assert check_dataset("digits") == [
        "train: 1,438 images of 10 classes, all decoded",
        "test: 359 images of 10 classes, all decoded",
    ]
