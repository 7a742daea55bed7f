"""Backbones by name: what `--set method.backbone.name=...` can choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field

from remnant.errors import InputError
from remnant.models.classifier import LinearClassifier
from remnant.models.masked_convolutions import ConvEncoder
from remnant.models.resnet import ResNet, resnet18, resnet_cifar
from remnant.settings import Settings

BackboneName = Literal["resnet8", "resnet14", "resnet20", "resnet32", "resnet18", "conv"]
Backbone = ResNet | ConvEncoder
Channels = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]


class BackboneConfig(Settings):
    """A residual network, or the wide and shallow convolutions of Bilateral MAE."""

    name: BackboneName = "resnet32"
    # [resnet] options A (subsample and pad) and B (1x1 convolution); thin networks only
    shortcut: Literal["pad", "project"] = "pad"
    # resnet18 only: "small" for 32 and 64 px, "large" for 224 px, "pooled" is 3x3 with max-pooling
    stem: Literal["small", "large", "pooled"] = "small"
    has_last_relu: bool = True  # of "conv": the last GELU
    channels: Channels = (48, 160, 192)  # conv only: of each stage, which halves the map
    stem_channels: int = Field(default=24, ge=1)  # conv only


def build_backbone(config: BackboneConfig, num_channels: int) -> Backbone:
    """A network from views [B, C, H, W] to features [B, D], with D as its `width`."""
    if config.name == "conv":
        return ConvEncoder(
            config.channels,
            stem_channels=config.stem_channels,
            num_channels=num_channels,
            has_last_gelu=config.has_last_relu,
        )
    if config.name == "resnet18":
        return resnet18(config.stem, num_channels, config.has_last_relu)
    depth = int(config.name.removeprefix("resnet"))
    return resnet_cifar(depth, config.shortcut, num_channels, config.has_last_relu)


def residual_builder(config: BackboneConfig, num_channels: int) -> Callable[[], ResNet]:
    """Makes one residual network after the other, for methods that cut and freeze their blocks.

    Raises:
        InputError: Another network is asked for.
    """
    if config.name == "conv":
        raise InputError(
            "this method cuts and copies residual networks; method.backbone.name must be one of "
            "resnet8, resnet14, resnet20, resnet32, resnet18; got conv."
        )

    def build() -> ResNet:
        network = build_backbone(config, num_channels)
        assert isinstance(network, ResNet), "every other name is that of a residual network"
        return network

    return build


def build_linear_network(
    config: BackboneConfig, num_channels: int
) -> tuple[Backbone, LinearClassifier]:
    """A backbone, and a linear classifier of its features that has no class yet."""
    backbone = build_backbone(config, num_channels)
    return backbone, LinearClassifier(backbone.width)
