from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from remnant.models.prunable_resnet import Extractor
from remnant.models.resnet import ResNet, resnet_cifar
from tests.support.worlds import SEED_OFFSET, seeded

NETWORKS: dict[str, Callable[[], ResNet]] = {
    "padded": lambda: resnet_cifar(14),
    "projected": lambda: resnet_cifar(8, "project"),
    "signed": lambda: resnet_cifar(8, has_last_relu=False),
    "four stages": lambda: ResNet((4, 6, 8, 10), 2, "project", "large"),
    "pooled": lambda: ResNet((4, 6), 1, "project", "pooled", num_channels=1),
}


def make_extractor(name: str = "padded", seed: int = 0) -> Extractor:
    """With weights and statistics that differ from channel to channel."""
    torch.manual_seed(SEED_OFFSET + seed)
    network = NETWORKS[name]()
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.uniform_(part.bias, -0.5, 0.5)
            assert part.running_mean is not None
            assert part.running_var is not None
            part.running_mean.uniform_(-0.5, 0.5)
            part.running_var.uniform_(0.5, 1.5)
    return Extractor(network).eval()


def some_views(extractor: Extractor, size: int = 16) -> Tensor:
    return torch.randn(3, extractor.network.conv.in_channels, size, size)


def some_kept(extractor: Extractor, seed: int = 1) -> Tensor:
    """About half of the channels: of every group the first, and not the last."""
    chance = seeded(seed)
    parts = []
    for size in extractor.group_sizes:
        part = torch.rand(size, generator=chance) < 0.5
        part[0], part[-1] = True, False
        parts.append(part)
    return torch.cat(parts)


@pytest.mark.parametrize("name", NETWORKS)
def test_an_extractor_computes_what_its_network_does(name: str) -> None:
    torch.manual_seed(SEED_OFFSET)
    network = NETWORKS[name]()
    extractor = Extractor(copy.deepcopy(network))
    views = some_views(extractor)
    assert torch.equal(extractor(views), network(views))
    open_gates = torch.ones(sum(extractor.group_sizes))
    torch.testing.assert_close(extractor(views, open_gates), network(views))


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_cut_network_computes_what_gates_of_0_and_1_do(name: str, is_training: bool) -> None:
    extractor = make_extractor(name).double().train(is_training)
    cut, views = copy.deepcopy(extractor), some_views(extractor).double()
    is_kept = some_kept(extractor)
    cut.cut(is_kept)
    gated = extractor(views, is_kept.double())
    is_feature = extractor.feature_channels(is_kept)
    assert cut.width == int(is_feature.sum()) < extractor.width
    torch.testing.assert_close(cut(views), gated[:, is_feature])
    assert not gated[:, ~is_feature].any()


def test_every_group_of_gates_matters_for_the_features() -> None:
    extractor = make_extractor("padded")
    views = some_views(extractor)
    gates = torch.full((sum(extractor.group_sizes),), 0.5, requires_grad=True)
    (gradient,) = torch.autograd.grad(extractor(views, gates).square().sum(), gates)
    assert all((part != 0).any() for part in gradient.split(extractor.group_sizes))


def test_what_is_added_to_a_stream_is_weighed_once() -> None:
    # One block whose branch is silent: the stream is the weighed stem, not weighed again.
    extractor = Extractor(ResNet((2,), 2, "pad")).eval()
    with torch.no_grad():
        for block in extractor.network.stages[0].children():
            assert isinstance(block.norm2, nn.BatchNorm2d)
            block.norm2.weight.zero_()
    views, gates = torch.randn(2, 3, 8, 8), torch.full((6,), 0.5)
    assert torch.allclose(extractor(views, gates), 0.5 * extractor(views))


def test_the_shortcut_that_pads_follows_the_channels_that_are_kept() -> None:
    extractor = Extractor(ResNet((2, 4), 1, "pad"))  # channels 0, 1 go to 1, 2
    shortcut: Any = extractor.network.stages[1].get_submodule("0").shortcut
    maps = torch.tensor([10.0, 20.0]).view(1, 2, 1, 1).expand(1, 2, 4, 4)
    assert shortcut(maps)[0, :, 1, 1].tolist() == [0, 10, 20, 0]
    assert shortcut(maps).shape == (1, 4, 2, 2)
    shortcut.cut(torch.tensor([1]), torch.tensor([1, 2, 3]))  # input 0 and output 0 are gone
    assert shortcut(maps[:, 1:])[0, :, 0, 0].tolist() == [0, 20, 0]


def slow_used(extractor: Extractor, gates: Tensor) -> tuple[float, int]:
    """[der] weights in use and all weights, written out for a network of two stages of one block.

    Groups: stream 0, stream 1, inner 0, inner 1.
    """
    first, second, inner_first, inner_second = (
        sum(part.tolist()) for part in gates.split(extractor.group_sizes)
    )
    used = 9 * 3 * first
    used += 9 * first * inner_first + 9 * inner_first * first
    used += 9 * first * inner_second + 9 * inner_second * second
    used += 1 * first * second
    return used, 9 * 3 * 4 + 2 * 9 * 4 * 4 + 9 * 4 * 6 + 9 * 6 * 6 + 4 * 6


def test_the_ratio_in_use_counts_weights_between_open_channels() -> None:
    extractor = Extractor(ResNet((4, 6), 1, "project"))
    gates = torch.rand(20, generator=seeded(0))
    used, total = slow_used(extractor, gates)
    assert float(extractor.used_ratio(gates)) == pytest.approx(used / total)
    assert float(extractor.used_ratio(torch.ones(20))) == pytest.approx(1)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_cut_network_has_the_weights_that_were_in_use(name: str) -> None:
    extractor = make_extractor(name)
    is_kept = some_kept(extractor)
    ratio = float(extractor.used_ratio(is_kept.float()))
    before = sum(layer.conv.weight.numel() for layer in extractor.layers())
    extractor.cut(is_kept)
    after = sum(layer.conv.weight.numel() for layer in extractor.layers())
    assert after == pytest.approx(ratio * before)
    norms = sum(2 * layer.norm.num_features for layer in extractor.layers())
    assert sum(weight.numel() for weight in extractor.parameters()) == after + norms


def test_the_strongest_channels_are_those_of_the_largest_scales() -> None:
    extractor = make_extractor("padded")
    block: Any = extractor.network.stages[0].get_submodule("1")
    scales = [abs(scale) for scale in block.norm1.weight.tolist()]
    expected = sorted(range(16), key=lambda channel: scales[channel])[9:]  # 0.6 of 16, rounded down
    inner = extractor.strongest(0.6).split(extractor.group_sizes)[4]
    assert torch.nonzero(inner).flatten().tolist() == sorted(expected)


def test_the_scale_of_a_stream_counts_all_norms_that_write_it() -> None:
    extractor = Extractor(ResNet((4, 6), 1, "project"))
    for layer in extractor.layers():
        layer.norm.weight.data.normal_(generator=seeded(7))
    block: Any = extractor.network.stages[1].get_submodule("0")
    stream = extractor.channel_scales().split(extractor.group_sizes)[1]
    for channel in range(6):
        scales = (block.norm2.weight[channel], block.shortcut[1].weight[channel])
        expected = sum(abs(scale.item()) for scale in scales)
        assert float(stream[channel]) == pytest.approx(expected)


def test_a_share_of_every_group_is_cut_and_some_of_it_stays() -> None:
    extractor = Extractor(ResNet((1, 10), 1, "pad"))
    kept = [int(part.sum()) for part in extractor.strongest(0.7).split(extractor.group_sizes)]
    assert kept == [1, 3, 1, 3]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_that_starts_from_a_whole_one_computes_the_same(name: str) -> None:
    first, second = make_extractor(name), make_extractor(name, seed=5)
    views = some_views(first)
    assert not torch.equal(second(views), first(views))
    second.start_from(first)
    assert torch.equal(second(views), first(views))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_that_starts_from_a_cut_one_has_its_weights_where_they_were(name: str) -> None:
    first, second = make_extractor(name), make_extractor(name, seed=5)
    is_kept, own = some_kept(first), copy.deepcopy(second.network.conv.weight.detach())
    first.cut(is_kept)
    second.start_from(first)
    views = some_views(first)
    gated = second(views, is_kept.float())
    torch.testing.assert_close(gated[:, second.feature_channels(is_kept)], first(views))
    gone = ~is_kept[: second.group_sizes[0]]
    assert torch.equal(second.network.conv.weight[gone], own[gone])


def test_a_frozen_extractor_keeps_every_bit_in_training() -> None:
    extractor = make_extractor()
    before = copy.deepcopy(extractor.state_dict())
    views = some_views(extractor)
    features = extractor(views)
    extractor.freeze()
    nn.Sequential(extractor).train()
    assert torch.equal(extractor(views), features)
    assert not any(weight.requires_grad for weight in extractor.parameters())
    assert not any(layer.norm.track_running_stats for layer in extractor.layers())  # nor averaged
    for name, tensor in extractor.state_dict().items():
        assert torch.equal(tensor, before[name]), name
