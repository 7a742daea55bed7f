from __future__ import annotations

import pytest
import torch

from remnant.errors import InputError
from remnant.methods.backbones import BackboneConfig, build_backbone
from remnant.models.masked_convolutions import ConvEncoder
from tests.support.small_residual import make_residual
from tests.support.worlds import seeded

CONV = {"name": "conv", "channels": [4, 6], "stem_channels": 3}


def test_convolutions_are_a_backbone_of_as_many_stages_as_they_have_channels() -> None:
    network = build_backbone(BackboneConfig.parse(CONV), 1)
    assert isinstance(network, ConvEncoder)
    assert (network.width, len(network.stages)) == (6, 2)
    assert network(torch.randn(2, 1, 8, 8, generator=seeded(0))).shape == (2, 6)


def test_a_backbone_has_no_weights_for_masked_images() -> None:
    network = build_backbone(BackboneConfig.parse(CONV), 3)
    assert not [name for name, _ in network.named_parameters() if "masked" in name]


@pytest.mark.parametrize("name", ["expandable", "expandable-pruned", "simple-expandable"])
def test_methods_that_grow_by_residual_networks_say_so(name: str) -> None:
    with pytest.raises(InputError, match="cuts and copies residual networks"):
        make_residual(name, backbone=CONV)
