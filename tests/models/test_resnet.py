from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
import torch
from torch import Tensor

from remnant.models.resnet import BasicBlock, ResNet, resnet18, resnet_cifar
from tests.support.worlds import seeded


@pytest.mark.parametrize(
    ("network", "count"),
    [
        (lambda: resnet_cifar(32, "pad"), 463_504),
        (lambda: resnet_cifar(32, "project"), 466_256),
        (lambda: resnet18("small"), 11_168_832),
        (lambda: resnet18("large"), 11_176_512),
        (lambda: resnet18("pooled"), 11_168_832),
    ],
    ids=["resnet32 A", "resnet32 B", "resnet18 small", "resnet18 large", "resnet18 pooled"],
)
def test_a_network_has_as_many_parameters_as_published(
    network: Callable[[], ResNet], count: int
) -> None:
    with torch.device("meta"):
        parameters = network().parameters()
    assert sum(parameter.numel() for parameter in parameters) == count


def shapes(network: ResNet, size: int) -> list[tuple[int, ...]]:
    views = torch.empty(2, 3, size, size, device="meta")
    return [tuple(each.shape[1:3]) for each in network.eval().maps(views)]


@pytest.mark.parametrize("size", [32, 64])
@pytest.mark.parametrize("shortcut", ["pad", "project"])
def test_a_small_network_halves_its_maps_twice_and_averages_any_size(
    size: int, shortcut: Literal["pad", "project"]
) -> None:
    with torch.device("meta"):
        network = resnet_cifar(32, shortcut)
    assert shapes(network, size) == [(16, size), (32, size // 2), (64, size // 4)]
    assert network(torch.empty(2, 3, size, size, device="meta")).shape == (2, network.width)
    assert network.width == 64


@pytest.mark.parametrize(
    ("stem", "size", "sides"),
    [
        ("small", 32, [32, 16, 8, 4]),
        ("small", 64, [64, 32, 16, 8]),
        ("large", 224, [56, 28, 14, 7]),
        ("pooled", 224, [112, 56, 28, 14]),
    ],
)
def test_the_stem_of_resnet18_decides_its_resolution(
    stem: Literal["small", "large", "pooled"], size: int, sides: list[int]
) -> None:
    with torch.device("meta"):
        network = resnet18(stem)
    assert shapes(network, size) == list(zip([64, 128, 256, 512], sides, strict=True))
    assert network(torch.empty(2, 3, size, size, device="meta")).shape == (2, 512)


def some_views() -> Tensor:
    return torch.randn(4, 3, 32, 32, generator=seeded(0))


@pytest.mark.parametrize("has_last_relu", [True, False])
def test_only_the_last_relu_can_be_left_out(has_last_relu: bool) -> None:
    network = resnet_cifar(14, has_last_relu=has_last_relu)
    *earlier, last = network.maps(some_views())
    assert all(float(maps.detach().min()) == 0 for maps in earlier)
    assert (float(last.detach().min()) < 0) == (not has_last_relu)
    signs = [block.has_relu for stage in network.stages for block in stage.children()]
    assert signs == [True] * 5 + [has_last_relu]


def test_features_are_the_mean_of_the_last_map() -> None:
    network = resnet_cifar(8).eval()
    last = network.maps(some_views())[-1]
    torch.testing.assert_close(network(some_views()), last.flatten(2).mean(dim=2))


def test_a_padding_shortcut_takes_every_other_pixel_and_adds_empty_channels() -> None:
    block = BasicBlock(2, 6, 2, "pad", has_relu=False).eval()
    torch.nn.init.zeros_(block.conv2.weight)  # what is left is the shortcut
    maps = torch.arange(2 * 4 * 4.0).view(1, 2, 4, 4)
    summed = block(maps).detach()
    assert summed.shape == (1, 6, 2, 2)
    assert torch.equal(summed[:, 2:4], maps[:, :, ::2, ::2])
    assert float(summed[:, [0, 1, 4, 5]].abs().max()) == 0


def test_one_channel_is_enough() -> None:
    assert resnet_cifar(8, num_channels=1)(torch.zeros(2, 1, 32, 32)).shape == (2, 64)


def test_a_depth_between_two_networks_is_refused() -> None:
    with pytest.raises(ValueError, match=r"6n \+ 2 .* got 30"):
        resnet_cifar(30)


@pytest.mark.parametrize("has_last_relu", [True, False])
def test_sums_are_the_outputs_of_all_blocks_before_their_relu(has_last_relu: bool) -> None:
    network = resnet_cifar(14, has_last_relu=has_last_relu).eval()
    views = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        features, sums = network.with_sums(views)
        assert torch.equal(features, network(views))
        maps = network.maps(views.contiguous(memory_format=torch.channels_last))
    assert [len(stage) for stage in sums] == [2, 2, 2]
    for index, (stage, output) in enumerate(zip(sums, maps, strict=True)):
        assert (stage[-1] < 0).any()
        is_signed = index == 2 and not has_last_relu
        assert torch.equal(stage[-1] if is_signed else stage[-1].relu(), output)
