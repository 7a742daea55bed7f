from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from remnant.images import ImageSet
from remnant.methods.nearest_mean import NearestMean
from remnant.phases import Reader
from tests.support.small_bimae import make_trainer, noise_set
from tests.support.worlds import make_set

LABELS = [2, 0, 1, 1, 0, 1]  # in no order, and not equally many


def halves(views: Tensor) -> Tensor:
    """Two features that a mirror changes: brightness and its slope from left to right."""
    rows = views.mean(dim=(1, 2))  # [B, W]
    return torch.stack([rows.mean(dim=1), rows[:, :8].mean(dim=1) - rows[:, 8:].mean(dim=1)], 1)


def slow_mean(exemplars: ImageSet, label: int, reader: Reader, is_mirrored: bool) -> Tensor:
    units = []
    for position in torch.nonzero(exemplars.labels == label).flatten():
        views = reader.views(exemplars.images.read(position[None]))
        for shown in [views, views.flip(3)] if is_mirrored else [views]:
            (vector,) = halves(shown)
            units.append(vector / vector.norm())
    mean = torch.stack(units).sum(dim=0) / len(units)
    return mean / mean.norm()


@pytest.mark.parametrize("is_mirrored", [True, False])
def test_a_mean_is_that_of_unit_features_of_exemplars_and_their_mirror_images(
    is_mirrored: bool,
) -> None:
    reader, exemplars = make_trainer().reader, noise_set(LABELS)
    classifier = NearestMean(2)
    classifier.grow(3)
    classifier.fill(halves, exemplars, reader, is_mirrored=is_mirrored)
    for label in range(3):
        expected = slow_mean(exemplars, label, reader, is_mirrored)
        torch.testing.assert_close(classifier.means[label], expected)


VECTORS = st.lists(
    st.tuples(st.floats(-9, 9), st.floats(-9, 9)).filter(
        lambda pair: pair[0] ** 2 + pair[1] ** 2 > 1
    ),
    min_size=2,
    max_size=5,
)


@given(means=VECTORS, features=VECTORS)
def test_scores_rank_classes_as_distances_do(
    means: list[tuple[float, float]], features: list[tuple[float, float]]
) -> None:
    classifier = NearestMean(2)
    classifier.grow(len(means))
    rows = torch.tensor(means)
    classifier.means.copy_(rows / rows.norm(dim=1, keepdim=True))
    scores = classifier(torch.tensor(features))
    for vector, found in zip(features, scores, strict=True):
        unit = torch.tensor(vector) / torch.tensor(vector).norm()
        distances = (classifier.means - unit).square().sum(dim=1)
        torch.testing.assert_close(2 - 2 * found, distances, rtol=1e-4, atol=1e-5)


def test_growth_makes_room_and_keeps_the_means_there_are() -> None:
    classifier = NearestMean(2)
    classifier.grow(1)
    classifier.means.fill_(0.6)
    classifier.grow(2)
    assert classifier.means.tolist() == [[pytest.approx(0.6)] * 2, [0, 0], [0, 0]]
    assert set(classifier.state_dict()) == {"means"}
    assert not list(classifier.parameters())


def test_one_exemplar_of_each_class_is_enough_where_features_part_them() -> None:
    reader = make_trainer().reader
    classifier = NearestMean(2)
    classifier.grow(4)
    classifier.fill(brightness, make_set(per_class=1, seed=1), reader)
    test = make_set(per_class=5, seed=2)
    scores = reader.apply(lambda views: classifier(brightness(views)), test)
    assert torch.equal(scores.argmax(dim=1), test.labels)


def brightness(views: Tensor) -> Tensor:
    """A direction [B, 2] per grey level."""
    level = views.mean(dim=(1, 2, 3))
    return torch.stack([level.cos(), level.sin()], dim=1)
