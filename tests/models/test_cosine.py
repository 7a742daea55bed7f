from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from remnant.models.cosine import CosineClassifier, ProxyClassifier, SplitClassifier
from tests.support.worlds import seeded

WIDTH, NUM_PROXIES = 3, 2
FEATURES = torch.tensor([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]])


def make(kind: str) -> SplitClassifier:
    return CosineClassifier(WIDTH) if kind == "cosine" else ProxyClassifier(WIDTH, NUM_PROXIES)


def grown(kind: str, *sizes: int, seed: int = 0) -> SplitClassifier:
    classifier = make(kind)
    chance = seeded(seed)
    for size in sizes:
        classifier.grow(size, chance)
    return classifier


KINDS = pytest.mark.parametrize("kind", ["cosine", "proxies"])


def cosine(a: list[float], b: list[float]) -> float:
    product = sum(x * y for x, y in zip(a, b, strict=True))
    return product / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(y * y for y in b))


def unit(vector: list[float]) -> list[float]:
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector]


# ------------------------------------------------------------------------------------------ scores


def test_cosine_scores_are_cosines_times_the_scale() -> None:
    classifier = grown("cosine", 2, 1)
    with torch.no_grad():
        classifier.scale.fill_(2.5)
    scores = classifier(FEATURES).tolist()
    for row, feature in zip(scores, FEATURES.tolist(), strict=True):
        expected = [2.5 * cosine(feature, vector) for vector in classifier.rows.tolist()]
        assert row == pytest.approx(expected, rel=1e-5)


def test_a_proxy_counts_by_its_share_of_a_softmax_over_minus_squared_distances() -> None:
    classifier = grown("proxies", 2, 1)
    found = classifier.similarities(FEATURES).tolist()
    for row, feature in zip(found, FEATURES.tolist(), strict=True):
        for score, proxies in zip(row, classifier.rows.tolist(), strict=True):
            near = [
                -sum((x - y) ** 2 for x, y in zip(unit(feature), unit(proxy), strict=True))
                for proxy in proxies
            ]
            powers = [math.exp(each) for each in near]
            shares = [power / sum(powers) for power in powers]
            expected = sum(share * each for share, each in zip(shares, near, strict=True))
            assert score == pytest.approx(expected, rel=1e-5)


@KINDS
@settings(deadline=None, max_examples=20)
@given(st.floats(0.1, 10), st.floats(0.1, 10))
def test_lengths_of_features_and_rows_do_not_matter(kind: str, first: float, second: float) -> None:
    classifier = grown(kind, 2, 1)
    expected = classifier(FEATURES).detach()
    with torch.no_grad():
        classifier.old *= first
        classifier.new *= second
    found = classifier(FEATURES * first).detach()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@KINDS
def test_a_new_classifier_scores_no_class(kind: str) -> None:
    assert make(kind)(FEATURES).shape == (2, 0)


# ------------------------------------------------------------------------------------------ growth


@KINDS
def test_growth_keeps_rows_bit_for_bit_and_calls_them_old(kind: str) -> None:
    classifier = grown(kind, 2, 1)
    with torch.no_grad():
        classifier.scale.fill_(3)
    before = classifier.rows.detach().clone()
    classifier.grow(4)
    assert torch.equal(classifier.old, before)
    assert (len(classifier.new), classifier.num_classes) == (4, 7)
    assert classifier.scale.item() == 3


@KINDS
def test_what_leaves_old_rows_out_gives_them_no_gradient_and_no_decay(kind: str) -> None:
    classifier = grown(kind, 2, 2)
    classifier.old.requires_grad_(False)
    before = classifier.rows.detach().clone()
    optimizer = torch.optim.SGD([classifier.new, classifier.scale], lr=1, weight_decay=0.5)
    classifier(FEATURES)[:, 2:].sum().backward()
    optimizer.step()
    assert classifier.old.grad is None
    assert torch.equal(classifier.old, before[:2])
    assert not torch.equal(classifier.new, before[2:])


@KINDS
def test_new_rows_are_a_function_of_the_generator(kind: str) -> None:
    torch.manual_seed(1)
    first = grown(kind, 3, seed=7)
    torch.manual_seed(2)
    assert torch.equal(grown(kind, 3, seed=7).new, first.new)
    assert not torch.equal(grown(kind, 3, seed=8).new, first.new)


@KINDS
def test_growth_keeps_type_and_frozenness(kind: str) -> None:
    classifier = make(kind).double().requires_grad_(False)
    classifier.grow(1)
    classifier.grow(2)
    for rows in (classifier.old, classifier.new):
        assert rows.dtype == torch.float64
        assert not rows.requires_grad


@KINDS
def test_growth_by_nothing_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="at least one class; got 0"):
        make(kind).grow(0)


def test_imprinted_rows_have_the_mean_length_of_old_ones() -> None:
    classifier = grown("cosine", 2, 2)
    with torch.no_grad():
        classifier.old.copy_(torch.tensor([[3.0, 4.0, 0.0], [0.0, 0.0, 1.0]]))  # lengths 5 and 1
    classifier.imprint(torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]]))
    expected = torch.tensor([[3.0, 0.0, 0.0], [0.0, 1.8, 2.4]])
    torch.testing.assert_close(classifier.new.detach(), expected)
    assert classifier.new.requires_grad


def test_imprinted_proxies_have_the_mean_length_of_all_old_ones() -> None:
    classifier = grown("proxies", 1, 1)
    with torch.no_grad():
        classifier.old.copy_(torch.tensor([[[3.0, 4.0, 0.0], [0.0, 0.0, 1.0]]]))
    classifier.imprint(torch.tensor([[[0.5, 0.0, 0.0], [0.0, 0.0, 1.0]]]))
    expected = torch.tensor([[[1.5, 0.0, 0.0], [0.0, 0.0, 3.0]]])
    torch.testing.assert_close(classifier.new.detach(), expected)
