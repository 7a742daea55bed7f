"""Residual networks for 32 to 224 px images: features only, without a classifier.

[resnet] He et al., CVPR 2016. Shapes for a 32 px image; axes: B images, C channels, D features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Shortcut = Literal["pad", "project"]  # [resnet] options A and B
Activation = Callable[[Tensor], Tensor]


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut."""

    def __init__(
        self, num_inputs: int, num_outputs: int, stride: int, shortcut: Shortcut, has_relu: bool
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(num_inputs, num_outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(num_outputs)
        self.conv2 = nn.Conv2d(num_outputs, num_outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(num_outputs)
        self.shortcut: nn.Module | None = None
        self.stride = stride
        self.extra_channels = num_outputs - num_inputs
        self.has_relu = has_relu
        if shortcut == "project" and (stride != 1 or num_inputs != num_outputs):
            self.shortcut = nn.Sequential(
                nn.Conv2d(num_inputs, num_outputs, 1, stride, bias=False),
                nn.BatchNorm2d(num_outputs),
            )

    def forward(self, maps: Tensor) -> Tensor:
        return self.activate(self.add(maps))

    def add(self, maps: Tensor, activate: Activation = F.relu) -> Tensor:
        """The sum of both paths."""
        inner = activate(self.norm1(self.conv1(maps)))
        return self.norm2(self.conv2(inner)) + self._shortcut(maps)

    def activate(self, summed: Tensor) -> Tensor:
        return F.relu(summed) if self.has_relu else summed

    def _shortcut(self, maps: Tensor) -> Tensor:
        if self.shortcut is not None:
            return self.shortcut(maps)
        if self.stride != 1:
            maps = maps[:, :, :: self.stride, :: self.stride]
        if self.extra_channels:
            before = self.extra_channels // 2
            maps = F.pad(maps, (0, 0, 0, 0, before, self.extra_channels - before))
        return maps


class ResNet(nn.Module):
    """A stem and stages of basic blocks, averaged to one vector per image.

    Args:
        widths: Channels of each stage; each stage after the first halves the map.
        stem: "small" keeps the resolution; "large" is 7x7 stride 2 with max-pooling (224 px);
            "pooled" is 3x3 with max-pooling.
        has_last_relu: Without it features keep their sign, as cosine classifiers need.
    """

    def __init__(
        self,
        widths: tuple[int, ...],
        blocks_per_stage: int,
        shortcut: Shortcut,
        stem: Literal["small", "large", "pooled"] = "small",
        num_channels: int = 3,
        has_last_relu: bool = True,
    ) -> None:
        super().__init__()
        self.width = widths[-1]  # D
        side, stride = (7, 2) if stem == "large" else (3, 1)
        self.conv = nn.Conv2d(num_channels, widths[0], side, stride, side // 2, bias=False)
        self.norm = nn.BatchNorm2d(widths[0])
        self.has_pooling = stem != "small"
        stages = []
        num_inputs = widths[0]
        for index, width in enumerate(widths):
            is_last = index == len(widths) - 1
            blocks = [
                BasicBlock(
                    num_inputs if block == 0 else width,
                    width,
                    2 if index > 0 and block == 0 else 1,
                    shortcut,
                    has_relu=has_last_relu or not (is_last and block == blocks_per_stage - 1),
                )
                for block in range(blocks_per_stage)
            ]
            stages.append(nn.Sequential(*blocks))
            num_inputs = width
        self.stages = nn.ModuleList(stages)
        self._initialise()

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def _stem(self, views: Tensor, activate: Activation = F.relu) -> Tensor:
        current = activate(self.norm(self.conv(views)))
        return F.max_pool2d(current, 3, 2, 1) if self.has_pooling else current

    def maps(self, views: Tensor) -> list[Tensor]:
        """The output of each stage, [B, C, H, W] with C growing and H, W halving."""
        current = self._stem(views)
        outputs = []
        for stage in self.stages:
            current = stage(current)
            outputs.append(current)
        return outputs

    @property
    def num_activations(self) -> int:
        """ReLUs of the network: one of the stem and two of each block."""
        blocks = [block for block in self.modules() if isinstance(block, BasicBlock)]
        return 1 + len(blocks) + sum(block.has_relu for block in blocks)

    def maps_through(self, views: Tensor, activations: Sequence[Activation]) -> Tensor:
        """The output of the last stage [B, C, H, W] with others in place of the ReLUs, in turn."""
        assert len(activations) == self.num_activations, "one for each ReLU"
        others = iter(activations)
        current = self._stem(views, next(others))
        for stage in self.stages:
            for block in stage.children():
                assert isinstance(block, BasicBlock), "stages are made of blocks"
                current = block.add(current, next(others))
                current = next(others)(current) if block.has_relu else current
        return current

    def forward(self, views: Tensor) -> Tensor:
        views = views.contiguous(memory_format=torch.channels_last)
        return self.maps(views)[-1].mean(dim=(2, 3))  # [B, D]

    def with_sums(self, views: Tensor) -> tuple[Tensor, list[list[Tensor]]]:
        """Features [B, D], and stage by stage what each block adds up, before its ReLU."""
        current = self._stem(views.contiguous(memory_format=torch.channels_last))
        sums: list[list[Tensor]] = []
        for stage in self.stages:
            sums.append([])
            for block in stage.children():
                assert isinstance(block, BasicBlock), "stages are made of blocks"
                sums[-1].append(block.add(current))
                current = block.activate(sums[-1][-1])
        return current.mean(dim=(2, 3)), sums


def resnet_cifar(
    depth: int, shortcut: Shortcut = "pad", num_channels: int = 3, has_last_relu: bool = True
) -> ResNet:
    """The thin three-stage network for small images: depth 8, 14, 20, 32, ..."""
    if (depth - 2) % 6:
        raise ValueError(f"the depth of a small ResNet is 6n + 2 (8, 14, 20, 32, ...); got {depth}")
    return ResNet(
        (16, 32, 64),
        (depth - 2) // 6,
        shortcut,
        num_channels=num_channels,
        has_last_relu=has_last_relu,
    )


def resnet18(
    stem: Literal["small", "large", "pooled"] = "small",
    num_channels: int = 3,
    has_last_relu: bool = True,
) -> ResNet:
    """The four-stage network of 18 layers; the small stem is for 32 and 64 px."""
    return ResNet((64, 128, 256, 512), 2, "project", stem, num_channels, has_last_relu)
