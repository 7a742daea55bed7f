from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from remnant.models.rational import Rational
from remnant.models.resnet import resnet18, resnet_cifar
from tests.support.worlds import seeded


def test_a_rational_is_a_quotient_of_polynomials() -> None:
    """[pade] term by term."""
    rational = Rational()
    above, below = rational.above.tolist(), rational.below.tolist()
    for value in (-2.5, -0.3, 0.0, 0.7, 3.0):
        top = sum(a * value**degree for degree, a in enumerate(above))
        bottom = 1 + sum(abs(b * value**degree) for degree, b in enumerate(below, start=1))
        found = rational(torch.tensor([value])).item()
        assert found == pytest.approx(top / bottom, rel=1e-4, abs=1e-5)


def test_it_begins_close_to_a_relu() -> None:
    values = torch.linspace(-3, 3, 101)
    assert (Rational()(values) - F.relu(values)).abs().max() < 0.06


@pytest.mark.parametrize(
    ("network", "count"),
    [
        (resnet_cifar(8), 7),
        (resnet_cifar(8, has_last_relu=False), 6),
        (resnet18("pooled"), 17),
    ],
)
def test_relus_in_place_of_relus_change_nothing(network: torch.nn.Module, count: int) -> None:
    network.eval()
    views = torch.randn(2, 3, 16, 16, generator=seeded(1))
    assert network.num_activations == count
    found = network.maps_through(views, [F.relu] * count).mean(dim=(2, 3))
    assert torch.allclose(found, network(views), atol=1e-5)
    doubled = network.maps_through(views, [F.relu] * (count - 1) + [lambda maps: 2 * F.relu(maps)])
    assert not torch.allclose(doubled.mean(dim=(2, 3)), network(views), atol=1e-3)
