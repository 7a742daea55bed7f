from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from remnant.models.gates import ChannelGates, annealed_scale, compensation
from tests.support.worlds import seeded


def make_gates(logits: list[float], sizes: tuple[int, ...], max_scale: float = 20) -> ChannelGates:
    gates = ChannelGates(sizes, max_scale, 1.0, seeded(0))
    with torch.no_grad():
        gates.logits.copy_(torch.tensor(logits))
    return gates


def test_the_scale_grows_evenly_within_every_epoch() -> None:
    # [hat] 1/s_max + (s_max - 1/s_max) (b - 1) / (B - 1), batches b counted from 1
    expected = [1 / 20 + (20 - 1 / 20) * (batch - 1) / (5 - 1) for batch in range(1, 6)]
    found = [annealed_scale(step, 5, 20) for step in range(10)]
    assert found == pytest.approx(expected * 2)
    assert found[4] == 20


def test_an_epoch_of_one_step_learns_all_the_same() -> None:
    assert annealed_scale(3, 1, 400) == 1


def test_gates_are_sigmoids_of_scaled_logits() -> None:
    gates = make_gates([-0.5, 0.0, 2.0], (3,))
    expected = [1 / (1 + math.exp(-3 * logit)) for logit in (-0.5, 0.0, 2.0)]
    assert gates.soft(3).tolist() == pytest.approx(expected)


@settings(deadline=None)
@given(
    logit=st.floats(-6, 6), scale=st.floats(1 / 400, 400), max_scale=st.sampled_from([25.0, 400.0])
)
def test_the_compensation_is_that_of_the_paper(
    logit: float, scale: float, max_scale: float
) -> None:
    clamped = max(-50.0, min(50.0, scale * logit))
    expected = max_scale / scale * (math.cosh(clamped) + 1) / (math.cosh(logit) + 1)
    found = compensation(torch.tensor([logit], dtype=torch.float64), scale, max_scale)
    assert float(found) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("scale", [0.05, 1.0, 4.0])
def test_gradients_of_logits_hardly_depend_on_the_scale(scale: float) -> None:
    gates = make_gates([-1.0, 0.3, 2.0], (3,))
    weights = torch.tensor([1.0, 2.0, 3.0])
    (weights * gates.soft(scale)).sum().backward()
    assert gates.logits.grad is not None
    for logit, weight, found in zip((-1.0, 0.3, 2.0), (1, 2, 3), gates.logits.grad, strict=True):
        slope = 1 / (2 + 2 * math.cosh(logit))  # of a sigmoid at scale 1
        assert float(found) == pytest.approx(20 * weight * slope, rel=1e-3)


def test_a_sum_over_parts_of_a_batch_is_compensated_as_a_whole() -> None:
    gates = make_gates([0.3, -0.2], (2,))
    for share in (0.25, 0.75):
        (share * gates.soft(3).square()).sum().backward()
    parts = gates.logits.grad
    gates.logits.grad = None
    gates.soft(3).square().sum().backward()
    torch.testing.assert_close(parts, gates.logits.grad)


def test_channels_of_positive_logit_stay_and_at_least_one_of_each_group() -> None:
    gates = make_gates([0.1, -0.1, 3.0, -2.0, -1.0, -6.0, -6.0], (3, 2, 2))
    assert gates.is_open().tolist() == [True, False, True, False, True, True, False]


def test_logits_are_kept_between_minus_6_and_6() -> None:
    gates = make_gates([-7.0, 6.5, 1.0], (3,))
    gates.clamp()
    assert gates.logits.tolist() == [-6, 6, 1]


def test_all_channels_are_open_at_first() -> None:
    gates = ChannelGates((50, 50), 400, 0.5, seeded(0))
    assert gates.is_open().all()
    assert 0.4 < float(gates.logits.detach().max()) <= 0.5
