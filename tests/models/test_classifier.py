from __future__ import annotations

import math

import pytest
import torch

from remnant.models.classifier import (
    LinearClassifier,
    adjust_biases,
    align_new_rows,
    restore_biases,
)
from tests.support.worlds import seeded


def test_a_new_classifier_scores_no_class() -> None:
    assert LinearClassifier(4)(torch.ones(3, 4)).shape == (3, 0)


@pytest.mark.parametrize("bias", [True, False])
def test_growth_keeps_old_rows_bit_for_bit(bias: bool) -> None:
    classifier = LinearClassifier(4, bias=bias)
    classifier.grow(2)
    old = {name: value.clone() for name, value in classifier.named_parameters()}
    classifier.grow(3)
    assert classifier.num_classes == 5
    assert set(old) == ({"weight", "bias"} if bias else {"weight"})
    for name, value in classifier.named_parameters():
        assert len(value) == 5
        assert torch.equal(value[:2], old[name])


def test_scores_are_products_with_rows_plus_bias() -> None:
    classifier = LinearClassifier(2)
    classifier.grow(2)
    classifier.weight.data = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert classifier.bias is not None
    classifier.bias.data = torch.tensor([0.5, -0.5])
    assert classifier(torch.tensor([[1.0, 10.0]])).tolist() == [[21.5, 42.5]]


def test_new_rows_are_a_function_of_the_generator_within_the_bound_of_nn_linear() -> None:
    drawn = []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        classifier = LinearClassifier(16)
        classifier.grow(200, seeded(7))
        drawn.append(classifier.weight)
    assert torch.equal(drawn[0], drawn[1])
    assert 0.24 < float(drawn[0].detach().abs().max()) <= 0.25


def test_new_rows_have_the_length_that_the_pages_tell() -> None:
    classifier = LinearClassifier(64)
    classifier.grow(500, seeded(1))
    length = float(classifier.weight.detach().norm(dim=1).mean())
    assert length == pytest.approx(3**-0.5, rel=0.02)  # 0.58; PyCIL: 1


def test_growth_keeps_type_and_frozenness() -> None:
    classifier = LinearClassifier(4).double().requires_grad_(False)
    classifier.grow(1)
    assert classifier.weight.dtype == torch.float64
    assert not any(parameter.requires_grad for parameter in classifier.parameters())


def test_growth_by_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one class; got 0"):
        LinearClassifier(4).grow(0)


@pytest.mark.parametrize("label", [0, 1, 3])
def test_a_cut_removes_one_row_and_keeps_the_others_bit_for_bit(label: int) -> None:
    classifier = LinearClassifier(4)
    classifier.grow(4)
    assert classifier.bias is not None
    weight, bias = classifier.weight.clone(), classifier.bias.clone()
    classifier.cut(label)
    others = [row for row in range(4) if row != label]
    assert torch.equal(classifier.weight, weight[others])
    assert torch.equal(classifier.bias, bias[others])
    assert classifier.num_classes == 3
    assert classifier.weight.requires_grad


def test_alignment_scales_new_rows_to_the_mean_length_of_old_ones() -> None:
    classifier = LinearClassifier(2)
    classifier.grow(4)
    classifier.weight.data = torch.tensor([[3.0, 4.0], [0.0, 1.0], [8.0, 6.0], [0.0, -2.0]])
    assert classifier.bias is not None
    biases = classifier.bias.detach().clone()
    align_new_rows(classifier, num_old_classes=2)  # mean lengths 3 and 6
    expected = torch.tensor([[3.0, 4.0], [0.0, 1.0], [4.0, 3.0], [0.0, -1.0]])
    torch.testing.assert_close(classifier.weight.detach(), expected)
    assert torch.equal(classifier.bias, biases)
    assert classifier.weight.requires_grad


@pytest.mark.parametrize("num_old_classes", [1, 3])
def test_alignment_leaves_old_rows_and_the_directions_of_new_ones(num_old_classes: int) -> None:
    classifier = LinearClassifier(5)
    classifier.grow(4, seeded(0))
    before = classifier.weight.detach().clone()
    align_new_rows(classifier, num_old_classes)
    after = classifier.weight.detach()
    assert torch.equal(after[:num_old_classes], before[:num_old_classes])
    lengths = after.norm(dim=1)
    torch.testing.assert_close(lengths[:num_old_classes].mean(), lengths[num_old_classes:].mean())
    ratios = (after / before)[num_old_classes:]
    torch.testing.assert_close(ratios, ratios[0, 0].expand_as(ratios))


def adjustable() -> LinearClassifier:
    """Of three classes."""
    classifier = LinearClassifier(2)
    classifier.make_adjustable()
    classifier.grow(3)
    return classifier


def test_adjusted_scores_are_those_of_balanced_classes() -> None:
    classifier = adjustable()
    features, counts = torch.randn(4, 2, generator=seeded(0)), torch.tensor([10, 400, 40])
    natural = classifier(features).detach().softmax(dim=1)
    adjust_biases(classifier, counts, 1.0)
    # By Bayes' rule: divided by the prior, then normalised.
    balanced = natural / (counts / counts.sum())
    balanced /= balanced.sum(dim=1, keepdim=True)
    assert torch.allclose(classifier(features).softmax(dim=1), balanced, atol=1e-6)


def test_a_class_without_images_is_adjusted_like_the_one_with_fewest() -> None:
    classifier = adjustable()
    assert classifier.bias is not None
    before = classifier.bias.detach().clone()
    adjust_biases(classifier, torch.tensor([0, 5, 50]), 1.0)
    moved = (classifier.bias - before).tolist()
    assert moved[0] == pytest.approx(moved[1])
    assert moved[1] - moved[2] == pytest.approx(math.log(10), abs=1e-5)


def test_growing_and_cutting_keep_what_was_taken_from_each_class() -> None:
    classifier = adjustable()
    assert classifier.bias is not None
    before = classifier.bias.detach().clone()
    adjust_biases(classifier, torch.tensor([4, 40, 400]), 1.0)
    classifier.cut(1)
    classifier.grow(1)
    restore_biases(classifier)
    assert torch.allclose(classifier.bias[:2], before[[0, 2]])
    assert torch.equal(torch.as_tensor(classifier.adjustment), torch.zeros(3))
