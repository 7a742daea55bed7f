from __future__ import annotations

import pytest
import torch

from remnant.models.feature_gan import FeatureCritic, FeatureGenerator
from tests.support.worlds import seeded


def leaky(value: float) -> float:
    return value if value > 0 else 0.2 * value


def through(layer: torch.nn.Linear, inputs: list[float]) -> list[float]:
    rows = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
    return [sum(w * x for w, x in zip(row, inputs, strict=True)) + bias for row, bias in rows]


def shaken(network: torch.nn.Module) -> None:
    source = seeded(3)
    for parameter in network.parameters():
        parameter.data.normal_(generator=source)


@pytest.mark.parametrize("is_positive", [True, False])
def test_a_class_enters_the_generator_as_a_one_hot_vector_beside_the_noise(
    is_positive: bool,
) -> None:
    """[gfr] Two hidden layers over (noise, one-hot), one number after the other."""
    generator = FeatureGenerator(3, num_noise=4, num_hidden=5, is_positive=is_positive)
    generator.grow(2)
    shaken(generator)
    noise = torch.randn(4, generator=seeded(1))
    for label in (0, 1):
        one_hot = [float(label == k) for k in (0, 1)]
        weights = torch.cat([generator.first.weight, generator.rows.T], dim=1)  # [H, Z + K]
        hidden = [
            leaky(sum(w * x for w, x in zip(row, noise.tolist() + one_hot, strict=True)) + bias)
            for row, bias in zip(weights.tolist(), generator.first.bias.tolist(), strict=True)
        ]
        hidden = [leaky(value) for value in through(generator.second, hidden)]
        expected = through(generator.last, hidden)
        if is_positive:
            expected = [max(0.0, value) for value in expected]
        found = generator(noise[None], torch.tensor([label]))[0].tolist()
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_the_critic_adds_a_projection_on_the_row_of_the_class() -> None:
    critic = FeatureCritic(3, num_hidden=5)
    critic.grow(2)
    shaken(critic)
    features = torch.randn(3, generator=seeded(2))
    for label in (0, 1):
        hidden = [leaky(value) for value in through(critic.first, features.tolist())]
        hidden = [leaky(value) for value in through(critic.second, hidden)]
        row = critic.rows[label].tolist()
        expected = through(critic.last, hidden)[0]
        expected += sum(p * h for p, h in zip(row, hidden, strict=True))
        found = critic(features[None], torch.tensor([label])).item()
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_growing_keeps_every_bit_of_what_was_there() -> None:
    for network in (FeatureGenerator(3, 4, 5, True), FeatureCritic(3, 5)):
        network.grow(2)
        before = network.rows.detach().clone()
        network.grow(3)
        assert network.rows.shape == (5, 5)
        assert torch.equal(network.rows[:2], before)


def test_sizes_are_the_published_ones() -> None:
    """679,424 and 628,325 parameters; the latter with a class head of 51,300 that has no effect."""
    generator, critic = FeatureGenerator(512, 200, 512, True), FeatureCritic(512, 512)
    for network, expected in ((generator, 679_424), (critic, 628_325 - 51_300)):
        network.grow(100)
        assert sum(parameter.numel() for parameter in network.parameters()) == expected
