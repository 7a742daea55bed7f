"""Backbones by name: what `--set method.backbone.name=...` can choose."""

from __future__ import annotations

from typing import Literal

from remnant.models.classifier import LinearClassifier
from remnant.models.resnet import ResNet, resnet18, resnet_cifar
from remnant.settings import Settings

BackboneName = Literal["resnet8", "resnet14", "resnet20", "resnet32", "resnet18"]


class BackboneConfig(Settings):
    """A residual network."""

    name: BackboneName = "resnet32"
    # [resnet] options A (subsample and pad) and B (1x1 convolution); thin networks only
    shortcut: Literal["pad", "project"] = "pad"
    # resnet18 only: "small" for 32 and 64 px, "large" for 224 px, "pooled" is 3x3 with max-pooling
    stem: Literal["small", "large", "pooled"] = "small"
    has_last_relu: bool = True


def build_backbone(config: BackboneConfig, num_channels: int) -> ResNet:
    """A network from views [B, C, H, W] to features [B, D], with D as its `width`."""
    if config.name == "resnet18":
        return resnet18(config.stem, num_channels, config.has_last_relu)
    depth = int(config.name.removeprefix("resnet"))
    return resnet_cifar(depth, config.shortcut, num_channels, config.has_last_relu)


def build_linear_network(
    config: BackboneConfig, num_channels: int
) -> tuple[ResNet, LinearClassifier]:
    """A backbone, and a linear classifier of its features that has no class yet."""
    backbone = build_backbone(config, num_channels)
    return backbone, LinearClassifier(backbone.width)
