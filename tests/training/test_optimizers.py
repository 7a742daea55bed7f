from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from remnant.phases import OptimizerConfig
from remnant.training.optimizers import (
    build_optimizer,
    clip_gradients,
    learning_rate,
    load_optimizer_tensors,
    optimizer_tensors,
    set_learning_rate,
)
from tests.support.worlds import SEED_OFFSET, seeded


def rates(steps_per_epoch: int, num_steps: int, **settings: Any) -> list[float]:
    config = OptimizerConfig(lr=1.0, **settings)
    return [learning_rate(config, step, steps_per_epoch, num_steps) for step in range(num_steps)]


def test_a_constant_rate_is_constant() -> None:
    assert rates(2, 4) == [1.0] * 4


def test_cosine_falls_from_lr_towards_min_lr() -> None:
    found = rates(2, 4, schedule="cosine", min_lr=0.2)
    half = math.sqrt(0.5)
    expected = [1.0, 0.2 + 0.4 * (1 + half), 0.6, 0.2 + 0.4 * (1 - half)]
    assert found == pytest.approx(expected, abs=1e-12)


def test_steps_multiply_by_gamma_at_each_milestone_epoch() -> None:
    found = rates(2, 8, schedule="steps", milestones=(1, 2.5), gamma=0.1)
    assert found == pytest.approx([1, 1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01])


def test_warm_up_rises_in_a_line_and_the_schedule_starts_after_it() -> None:
    found = rates(3, 9, schedule="cosine", warmup_epochs=1)
    assert found[:3] == pytest.approx([0.25, 0.5, 0.75])
    assert found[3] == pytest.approx(1.0)
    assert found[6] == pytest.approx(0.5)


def test_warm_up_can_start_above_zero() -> None:
    assert rates(3, 9, warmup_epochs=1, warmup_lr=0.2)[:4] == pytest.approx([0.4, 0.6, 0.8, 1.0])


def test_warm_up_longer_than_the_phase_never_divides_by_zero() -> None:
    assert rates(1, 2, schedule="cosine", warmup_epochs=2)[-1] == pytest.approx(2 / 3)


def make_network() -> nn.Module:
    torch.manual_seed(SEED_OFFSET + 3)
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))


def train(network: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        inputs = torch.randn(6, 4, generator=seeded(step))
        optimizer.zero_grad()
        (network(inputs) ** 2).sum().backward()
        set_learning_rate(optimizer, 0.01 / (step + 1))
        optimizer.step()


@pytest.mark.parametrize("is_fused", [True, False])
@pytest.mark.parametrize("decay_norms_and_biases", [True, False])
@pytest.mark.parametrize(
    "settings",
    [
        {"name": "sgd"},
        {"name": "sgd", "momentum": 0.0},
        {"name": "adam"},
        {"name": "adamw"},
    ],
)
def test_an_optimiser_goes_on_bit_for_bit_from_its_tensors(
    settings: dict[str, Any], decay_norms_and_biases: bool, is_fused: bool
) -> None:
    config = OptimizerConfig(
        lr=0.01, weight_decay=0.1, decay_norms_and_biases=decay_norms_and_biases, **settings
    )
    straight = make_network()
    optimizer = build_optimizer(config, list(straight.parameters()), is_fused=is_fused)
    train(straight, optimizer, range(5))
    saved = {name: tensor.clone() for name, tensor in optimizer_tensors(optimizer).items()}
    weights = {name: tensor.clone() for name, tensor in straight.state_dict().items()}
    train(straight, optimizer, range(5, 9))

    resumed = make_network()
    resumed.load_state_dict(weights)
    fresh = build_optimizer(config, list(resumed.parameters()), is_fused=is_fused)
    load_optimizer_tensors(fresh, saved)
    train(resumed, fresh, range(5, 9))
    for expected, found in zip(straight.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(expected, found)


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_a_fused_optimiser_makes_the_same_steps_up_to_rounding(name: Any) -> None:
    config = OptimizerConfig(name=name, lr=0.01, weight_decay=0.1)
    networks = [make_network() for _ in range(2)]
    for network, is_fused in zip(networks, (False, True), strict=True):
        optimizer = build_optimizer(config, list(network.parameters()), is_fused=is_fused)
        train(network, optimizer, range(4))
    for plain, fused in zip(*(network.parameters() for network in networks), strict=True):
        torch.testing.assert_close(fused, plain, rtol=1e-5, atol=1e-6)


def test_norms_and_biases_can_go_without_decay() -> None:
    config = OptimizerConfig(lr=0.1, weight_decay=0.5, momentum=0, decay_norms_and_biases=False)
    layer = nn.Linear(2, 2)
    before = layer.weight.detach().clone(), layer.bias.detach().clone()
    optimizer = build_optimizer(config, list(layer.parameters()))
    for parameter in layer.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    torch.testing.assert_close(layer.weight, before[0] * 0.95)
    assert torch.equal(layer.bias, before[1])


def test_gradients_are_clipped_by_value_and_by_their_common_norm() -> None:
    first, second = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
    first.grad, second.grad = torch.tensor([30.0]), torch.tensor([4.0])
    clip_gradients(OptimizerConfig(lr=1, clip_value=3.0, clip_norm=2.5), [first, second])
    assert first.grad.item() == pytest.approx(3 * 2.5 / math.sqrt(18), rel=1e-5)
    assert second.grad.item() == pytest.approx(3 * 2.5 / math.sqrt(18), rel=1e-5)


def test_nesterov_looks_ahead_by_the_momentum() -> None:
    weight = nn.Parameter(torch.zeros(1))
    config = OptimizerConfig(lr=0.1, momentum=0.5, nesterov=True)
    optimizer = build_optimizer(config, [weight])
    expected, velocity = 0.0, 0.0
    for gradient in (1.0, -2.0, 3.0):
        weight.grad = torch.tensor([gradient])
        optimizer.step()
        velocity = 0.5 * velocity + gradient
        expected -= 0.1 * (gradient + 0.5 * velocity)
    assert float(weight.detach()) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("changes", [{"lr": 1e300}, {"betas": (2.0, 0.9)}, {"betas": (0.9, 1.0)}])
def test_what_no_optimiser_takes_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        OptimizerConfig(**{"name": "adam", "lr": 0.1, **changes})
