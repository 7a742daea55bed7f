from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from remnant.probe.score_bias import ScoreBias, score_bias


def accuracy(scores: Tensor, labels: Tensor, num_old: int, shift: float) -> float:
    """The mean over classes, in percent, with `shift` subtracted from the scores of new classes."""
    shifted = scores.clone()
    shifted[:, num_old:] -= shift
    right = shifted.argmax(dim=1) == labels
    return (
        100
        * sum(float(right[labels == k].double().mean()) for k in labels.unique())
        / len(labels.unique())
    )


@given(st.integers(0, 10_000), st.floats(-3, 3))
def test_no_other_constant_does_better(seed: int, bias: float) -> None:
    source = torch.Generator().manual_seed(seed)
    scores = torch.randn(40, 5, generator=source, dtype=torch.double)
    scores[:, 3:] += bias
    labels = torch.arange(40) % 5
    found = score_bias(scores, labels, 3, None)
    assert accuracy(scores, labels, 3, found.shift) == pytest.approx(found.accuracy)
    assert accuracy(scores, labels, 3, 0.0) == pytest.approx(found.unshifted)
    tried = [accuracy(scores, labels, 3, shift) for shift in torch.linspace(-6, 6, 200).tolist()]
    assert found.accuracy >= max(tried) - 1e-9


def test_scores_that_are_too_high_by_a_constant_are_found_out() -> None:
    labels = torch.arange(4).repeat(25)
    scores = torch.eye(4)[labels]  # a lead of 1 for the right class
    scores[:, 2:] += 7.0
    found = score_bias(scores, labels, 2, [10, 10, 1000, 1000])
    assert found.accuracy == pytest.approx(100)
    assert 6 < found.shift < 8
    assert found.log_ratio == pytest.approx(math.log(100))


@given(st.integers(0, 10_000))
def test_equal_margins_are_never_parted(seed: int) -> None:
    source = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, 3, (30, 4), generator=source).double()
    labels = torch.arange(30) % 4
    found = score_bias(scores, labels, 2, None)
    tried = [accuracy(scores, labels, 2, shift / 4 + 0.1) for shift in range(-16, 17)]
    assert found.accuracy == pytest.approx(max(*tried, found.unshifted))


def test_where_nothing_helps_nothing_is_taken() -> None:
    labels = torch.arange(4).repeat(5)
    found = score_bias(torch.eye(4)[labels], labels, 2, None)
    assert (found.shift, found.accuracy) == (0.0, pytest.approx(100))


def test_the_sentence_says_what_would_have_been() -> None:
    assert ScoreBias(2.91, 67.04, 55.9, 2.465).reading == (
        "Subtracting 2.9 from the scores of the newest classes would give 67.0 % accuracy instead "
        "of 55.9 %; the log of the ratio of images per new class to exemplars per old class is 2.5."
    )
    assert ScoreBias(0.0, 50.0, 50.0, None).reading.endswith("instead of 50.0 %.")
