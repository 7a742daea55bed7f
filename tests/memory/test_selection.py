from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from remnant.errors import InputError
from remnant.memory import herding, random_ranks, select
from remnant.randomness import generator


def features_of(seed: int, count: int, width: int) -> torch.Tensor:
    return torch.randn(count, width, generator=generator(seed)) + 0.5


def herd_literally(features: np.ndarray, count: int) -> list[int]:
    """iCaRL's loop, written down as published; of equal scores the first image wins."""
    units = [row / np.linalg.norm(row) for row in features.astype(np.float64)]
    mean = sum(units) / len(units)
    target = mean
    ranks: list[int] = []
    for _ in range(1000):
        if len(ranks) == count:
            break
        best = max(range(len(units)), key=lambda index: round(float(target @ units[index]), 9))
        if best not in ranks:
            ranks.append(best)
        target = target + mean - units[best]
    return ranks


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 12), st.integers(1, 30))
@settings(deadline=None)
def test_herding_ranks_as_its_literal_definition(
    seed: int, num_images: int, width: int, count: int
) -> None:
    features = features_of(seed, num_images, width + 1)
    expected = herd_literally(features.numpy(), min(count, num_images))
    assert herding(features, count).tolist()[: len(expected)] == expected


def test_herding_may_return_to_an_image_before_it_ranks_the_next() -> None:
    features = features_of(0, 100, 8)
    units = torch.nn.functional.normalize(features.double(), dim=1)
    total, ranks = torch.zeros(8, dtype=torch.float64), []
    for length in range(1, 41):  # the other rule: the best mean without replacement
        distances = (units.mean(0) - (units + total) / length).norm(dim=1)
        distances[ranks] = torch.inf
        ranks.append(int(distances.argmin()))
        total += units[ranks[-1]]
    herded = herding(features, 40).tolist()
    assert herded[:10] == ranks[:10]
    assert herded != ranks
    assert herded == herd_literally(features.numpy(), 40)


def test_the_first_image_herded_is_the_nearest_to_the_mean_direction() -> None:
    features = torch.tensor([[0.0, 1.0], [3.0, 3.0], [1.0, 0.0]])  # lengths do not matter
    assert herding(features, 1).tolist() == [1]


def test_fewer_ranks_are_a_prefix_of_more() -> None:
    features = features_of(1, 60, 16)
    assert herding(features, 10).tolist() == herding(features).tolist()[:10]


@pytest.mark.parametrize("row", [[1.0, 2.0], [0.0, 0.0]])
def test_equal_features_rank_every_image_once(row: list[float]) -> None:
    assert herding(torch.tensor([row] * 5)).tolist() == [0, 1, 2, 3, 4]


def test_no_images_give_no_ranks() -> None:
    assert herding(torch.zeros(0, 4), 3).tolist() == []


def test_features_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="finite"):
        herding(torch.tensor([[1.0, float("nan")]]), 1)


def test_random_ranks_are_distinct_and_follow_the_generator() -> None:
    ranks = random_ranks(50, 20, generator(3))
    assert len(set(ranks.tolist())) == 20
    assert ranks.tolist() == random_ranks(50, 20, generator(3)).tolist()
    assert ranks.tolist() != random_ranks(50, 20, generator(4)).tolist()


@pytest.mark.parametrize("selection", ["herding", "random"])
def test_a_class_with_few_images_gives_all_of_them(selection: str) -> None:
    ranks = select(selection, features_of(0, 3, 4), 80, generator(0))  # type: ignore[arg-type]
    assert sorted(ranks.tolist()) == [0, 1, 2]
