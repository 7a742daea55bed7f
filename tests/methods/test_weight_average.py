from __future__ import annotations

import pytest
import torch
from torch import nn

from remnant.methods.weight_average import WeightAverage


def test_the_average_is_that_of_its_formula() -> None:
    network = nn.BatchNorm1d(1)
    average = WeightAverage(network, 0.4)
    expected, mean = 1.0, 1.0
    for step, value in enumerate([2.0, 5.0, -1.0, 4.0, 3.0, 8.0, 1.0, 2.0]):
        with torch.no_grad():
            network.weight.fill_(value)
        network.running_mean.fill_(value)
        average.update(network)
        kept = min(0.4, step / (step + 9))
        expected = kept * expected + (1 - kept) * value
        mean = kept * mean + (1 - kept) * value
    average.put_into(network)
    assert float(network.weight.detach()) == pytest.approx(expected, rel=1e-5)
    assert float(network.running_mean) == pytest.approx(mean, rel=1e-5)


def test_a_saved_average_goes_on_as_if_it_had_not_been() -> None:
    network = nn.Linear(2, 2)
    average = WeightAverage(network, 0.9)
    average.update(network)
    copy = WeightAverage(network, 0.9)
    copy.load_state_dict(average.state_dict())
    with torch.no_grad():
        network.weight.add_(1)
    for one in (average, copy):
        one.update(network)
    assert torch.equal(average.value0, copy.value0)
    assert int(copy.num_updates) == 2


def test_an_average_has_nothing_that_an_optimiser_could_move() -> None:
    assert list(WeightAverage(nn.Linear(2, 2), 0.9).parameters()) == []
