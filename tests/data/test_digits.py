"""Claims about the embedded data set."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from remnant.data import DataConfig, Dataset, load_dataset
from remnant.images import ArrayImages


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_dataset(DataConfig(dataset="digits"))


def pixels(images: object) -> torch.Tensor:
    assert isinstance(images, ArrayImages)
    return images.array


def test_every_fifth_image_is_test_and_nothing_is_lost(digits: Dataset) -> None:
    assert digits.test.ids.tolist() == list(range(4, 1797, 5))
    assert sorted(digits.train.ids.tolist() + digits.test.ids.tolist()) == list(range(1797))


def test_labels_belong_to_their_ids(digits: Dataset) -> None:
    labels = torch.from_numpy(load_digits().target)
    assert torch.equal(digits.train.labels, labels[digits.train.ids])
    assert torch.equal(digits.test.labels, labels[digits.test.ids])


def test_images_are_grey_and_span_the_full_range(digits: Dataset) -> None:
    array = pixels(digits.train.images)
    assert array.shape == (1438, 32, 32, 3)
    assert torch.equal(array[..., 0], array[..., 2])
    assert (int(array.min()), int(array.max())) == (0, 255)


def test_enlarged_image_keeps_the_levels_of_the_original(digits: Dataset) -> None:
    coarse = pixels(digits.train.images)[0, :, :, 0].reshape(8, 4, 8, 4).float().mean((1, 3))
    original = torch.from_numpy(load_digits().images[0]).float() * 255 / 16
    assert np.corrcoef(coarse.flatten(), original.flatten())[0, 1] > 0.95


def test_written_statistics_are_those_of_the_training_images(digits: Dataset) -> None:
    array = pixels(digits.train.images) / 255
    assert array.mean().item() == pytest.approx(digits.mean[0], abs=1e-4)
    assert array.std().item() == pytest.approx(digits.std[0], abs=1e-4)
