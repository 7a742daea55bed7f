from __future__ import annotations

import pytest
import torch
from torch import Tensor

from remnant.models.expandable_network import ExpandableNetwork
from remnant.models.resnet import resnet_cifar
from tests.support.worlds import SEED_OFFSET, seeded

VIEWS = torch.randn(4, 3, 16, 16, generator=seeded(0))


def make_network(num_tasks: int = 2, seed: int = 0) -> ExpandableNetwork:
    torch.manual_seed(SEED_OFFSET + seed)
    network = ExpandableNetwork(lambda: resnet_cifar(8))
    for _ in range(num_tasks):
        network.grow(2)
    return network.eval()


def half_of(network: ExpandableNetwork) -> Tensor:
    return torch.cat([torch.arange(size) % 2 == 0 for size in network.newest.group_sizes])


def test_a_task_adds_an_extractor_and_a_classifier_over_all() -> None:
    network = make_network(3)
    assert len(network.extractors) == 3
    assert network.classifier.weight.shape == (6, 3 * 64)
    assert network.classifier.bias is None
    assert network(VIEWS).shape == (4, 6)
    assert [one.is_frozen for one in network.all()] == [True, True, False]


def test_features_are_those_of_all_extractors_the_oldest_first() -> None:
    network = make_network(3)
    features = network.features(VIEWS)
    for index, extractor in enumerate(network.all()):
        assert torch.equal(features[:, 64 * index : 64 * index + 64], extractor(VIEWS))


def test_a_cut_keeps_the_scores_that_gates_of_0_and_1_give() -> None:
    network = make_network()
    is_kept = half_of(network)
    expected = network.classifier(network.features(VIEWS, is_kept.float()))
    network.cut_newest(is_kept)
    assert network.width == network.classifier.width == 64 + 32
    torch.testing.assert_close(network(VIEWS), expected)


def test_the_state_of_a_cut_network_loads_into_one_that_has_only_grown() -> None:
    network = make_network(1)
    network.cut_newest(half_of(network))
    network.grow(2)
    network.start_from_previous()
    network.eval()
    restored = make_network(2, seed=9)
    restored.load_state_dict(network.state_dict())
    assert torch.equal(restored(VIEWS), network(VIEWS))
    assert [one.width for one in restored.all()] == [32, 64]
    sizes = [sum(w.numel() for w in one.parameters()) for one in (restored, network)]
    assert sizes[0] == sizes[1]


def test_loading_a_state_of_the_same_shapes_keeps_the_parameters_that_optimisers_hold() -> None:
    network, other = make_network(), make_network(seed=3)
    before = [id(weight) for weight in network.parameters()]
    network.load_state_dict(other.state_dict())
    assert [id(weight) for weight in network.parameters()] == before


def test_heads_restart_in_place_as_the_generator_says() -> None:
    network = make_network()
    network.add_auxiliary(2, seeded(1))
    assert network.auxiliary is not None
    assert network.auxiliary.weight.shape == (3, 64)
    moving = [id(weight) for weight in network.moving()]
    draws, auxiliary = [], [network.auxiliary.weight.detach().clone()]
    for _ in range(2):
        network.restart_heads(seeded(2))
        draws.append(network.classifier.weight.detach().clone())
        auxiliary.append(network.auxiliary.weight.detach().clone())
    assert torch.equal(*draws)
    assert torch.equal(*auxiliary[1:])
    assert not torch.equal(auxiliary[0], auxiliary[1])
    assert [id(weight) for weight in network.moving()] == moving
    assert float(draws[0].abs().max()) == pytest.approx(128**-0.5, rel=0.05)


def test_only_the_newest_extractor_and_the_heads_move() -> None:
    network = make_network()
    moving = {id(weight) for weight in network.moving()}
    names = {name for name, weight in network.named_parameters() if id(weight) in moving}
    assert {name.split(".")[0] for name in names} == {"extractors", "classifier"}
    assert not any(name.startswith("extractors.0") for name in names)


@pytest.mark.slow  # the exporter takes seconds to import
def test_a_network_with_cut_extractors_can_be_exported_as_a_graph() -> None:
    network = make_network(1)
    network.cut_newest(half_of(network))
    network.grow(2)
    graph = torch.export.export(network.eval(), (VIEWS,))
    torch.testing.assert_close(graph.module()(VIEWS), network(VIEWS))
