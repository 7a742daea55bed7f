from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from torch import Tensor

from remnant.errors import InputError
from remnant.methods.feature_bank import FeatureBank, to_codes, to_directions
from remnant.methods.ranpac import RanPACConfig
from remnant.methods.ridge import PENALTIES, choose_temperature, fit_ridge, least_of, project


def make_codes(counts: tuple[int, ...], width: int = 12, spread: int = 25) -> list[np.ndarray]:
    """int8 codes around another direction for each class."""
    rng = np.random.default_rng(0)
    found = []
    for count in counts:
        direction = 60 * rng.standard_normal(width)
        rows = direction + spread * rng.standard_normal((count, width))
        found.append(np.clip(rows.round(), -127, 127).astype(np.int8))
    return found


def signs(width: int = 12, count: int = 30) -> np.ndarray:
    return np.where(np.random.default_rng(1).random((width, count)) < 0.5, -1, 1).astype(np.float32)


# ------------------------------------------------------------------------------------------- ridge


@pytest.mark.parametrize("num_projected", [30, 300])  # fewer and more than there are images
def test_the_weights_are_those_of_the_normal_equations(num_projected: int) -> None:
    codes, projection = make_codes((40, 20, 60)), signs(count=num_projected)
    fit = fit_ridge(codes, projection)
    rows = [
        (project(row[None], projection)[0], label) for label in range(3) for row in codes[label]
    ]
    total = len(rows)
    gram = np.zeros((num_projected, num_projected))
    right = np.zeros((num_projected, 3))
    for row, label in rows:
        weight = total / len(codes[label]) / 3
        gram += weight * np.outer(row, row)
        right[:, label] += weight * row
    penalty = fit.penalty * np.trace(gram) / total
    expected = np.linalg.solve(gram + penalty * np.eye(num_projected), right).T
    np.testing.assert_allclose(fit.weights, expected, rtol=1e-3, atol=1e-4 * abs(expected).max())


def test_the_result_is_a_function_of_the_set_of_images() -> None:
    codes, projection = make_codes((9, 7, 5)), signs()
    expected = fit_ridge(codes, projection)
    for order in itertools.permutations(range(3)):
        found = fit_ridge([codes[label][::-1] for label in order], projection)
        # Rows within a class must be in the order of their bytes, as a bank keeps them.
        banked = fit_ridge([codes[label] for label in order], projection)
        assert np.array_equal(banked.weights, expected.weights[list(order)])
        assert banked.temperature == expected.temperature
        assert found.penalty == expected.penalty


def test_a_large_class_is_not_favoured() -> None:
    """If all images counted alike, 0.9 of the few would be taken for the large class."""
    few, many = make_codes((400, 400), width=4, spread=50)
    projection = signs(width=4)
    fit = fit_ridge([few[:20], many], projection)
    taken_for_many = [
        float((project(rows, projection) @ fit.weights.T).argmax(axis=1).mean())
        for rows in (few[20:], many)
    ]
    assert taken_for_many[0] < 0.5 < taken_for_many[1]


def test_one_image_per_class_is_enough() -> None:
    codes, projection = make_codes((1, 1)), signs()
    fit = fit_ridge(codes, projection)
    scores = project(np.concatenate(codes), projection) @ fit.weights.T
    assert scores.argmax(axis=1).tolist() == [0, 1]
    assert fit.penalty in (*PENALTIES, 1e-2)


def test_confidence_is_about_as_large_as_accuracy() -> None:
    codes = make_codes((300, 300, 300), width=3)
    fit = fit_ridge(codes, signs(width=3))
    labels, scores = fit.held_out
    logits = scores / fit.temperature
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    accuracy = (scores.argmax(axis=1) == labels).mean()
    assert abs(shares.max(axis=1).mean() - accuracy) < 0.1


# -------------------------------------------------------------------------------------- the bank


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0, 3000.0])
def test_the_temperature_is_the_likeliest_of_all(seed: int, scale: float) -> None:
    chance = np.random.default_rng(seed)
    labels = chance.integers(0, 7, 40)
    scores = scale * (chance.normal(size=(40, 7)) + np.eye(7)[labels])
    doubt = 1 / 41
    targets = (1 - doubt) * np.eye(7)[labels] + doubt / 7

    def loss(temperature: float) -> float:
        logits = scores / temperature
        return -float((targets * (logits - logsumexp(logits, axis=1, keepdims=True))).sum())

    assert choose_temperature(scores, labels) == min(
        (10.0 ** (power / 8) for power in range(-24, 9)), key=loss
    )


def test_a_code_is_the_direction_of_its_features() -> None:
    features = torch.randn(7, 64)
    codes = to_codes(features)
    assert codes.dtype == torch.int8
    assert torch.equal(codes, to_codes(4 * features))  # a power of two is not rounded
    cosine = torch.nn.functional.cosine_similarity(codes.float(), features)
    assert cosine.min() > 0.999
    assert torch.equal(to_codes(torch.zeros(1, 4)), torch.zeros(1, 4, dtype=torch.int8))


def test_images_to_be_recognised_are_as_codes_are_but_for_rounding() -> None:
    """Temperature and limit are fitted to codes, in which no number is above 127."""
    features = torch.randn(20, 400, generator=torch.Generator().manual_seed(0))
    features[:, 0] = 100  # far larger than all others
    assert to_codes(features)[:, 0].tolist() == [127] * 20
    assert (to_directions(features) - to_codes(features)).abs().max() <= 0.5


def bank_of(*classes: Tensor) -> FeatureBank:
    bank = FeatureBank(4)
    bank.grow(len(classes))
    for label, codes in enumerate(classes):
        bank.add(label, codes)
    return bank


def test_a_bank_keeps_each_code_once_whatever_the_order() -> None:
    codes = torch.randint(-9, 9, (6, 4), dtype=torch.int8)
    one, other = bank_of(codes), bank_of(codes[:2])
    other.add(0, codes.flip(0))
    assert one.digest() == other.digest()
    assert one.nbytes == 6 * 4
    assert one.knows(0, torch.cat([codes[:1], codes[:1] + 1])).tolist() == [True, False]


def test_a_bank_is_saved_whole() -> None:
    bank = bank_of(*torch.randint(-9, 9, (3, 5, 4), dtype=torch.int8))
    again = FeatureBank(4)
    again.grow(3)
    again.load_arrays(*bank.state_arrays(), "x")
    assert again.digest() == bank.digest()
    bank.remove(1)
    assert (bank.num_classes, len(bank.of_class(1))) == (2, 5)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, facts: (arrays, {"counts": [5, 5]}),
        lambda arrays, facts: (arrays, {"counts": [5, 5, -5, 10]}),
        lambda arrays, facts: ({}, facts),
        lambda arrays, facts: ({"rows": arrays["rows"].astype(np.float32)}, facts),
        lambda arrays, facts: ({"rows": arrays["rows"][:, :3]}, facts),
    ],
)
def test_a_bank_that_does_not_fit_is_refused(change) -> None:
    bank = bank_of(*torch.randint(-9, 9, (3, 5, 4), dtype=torch.int8))
    with pytest.raises(InputError, match="x holds features that do not fit its classes"):
        bank.load_arrays(*change(*bank.state_arrays()), "x")


def test_a_twentieth_of_many_held_out_images_is_unfamiliar_and_of_few_none() -> None:
    many = np.linspace(0, 1, 101)
    assert least_of(many) == pytest.approx(0.05)
    few = np.array([0.8, 0.9, 1.0])
    assert least_of(few) == pytest.approx(0.9 - 3 * (0.02 / 3) ** 0.5)


def test_more_projected_features_than_memory_holds_are_refused() -> None:
    RanPACConfig.parse({"name": "ranpac", "num_projected": 32_768})
    with pytest.raises(InputError, match="num_projected"):
        RanPACConfig.parse({"name": "ranpac", "num_projected": 2_000_000})
