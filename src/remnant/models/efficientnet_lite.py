"""EfficientNet-Lite0 without its classifier: images to 1,280 features.

[efficientnet] Tan and Le, ICML 2019; the Lite variant (Liu, 2020) has ReLU6 in place of swish and
no squeeze-and-excitation.

Axes: B images, C channels, H height, W width, D features.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn
from torch.nn import functional


class Stage(NamedTuple):
    """Blocks of one width; the first of them has the stride."""

    num_blocks: int
    kernel: int
    stride: int
    expansion: int
    width: int


STAGES = (  # [efficientnet] Table 1; Lite keeps the widths of B0
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)
STEM_WIDTH, WIDTH = 32, 1280


class EfficientNetLite0(nn.Module):
    """Views [B, 3, H, W] -> features [B, 1280]."""

    width = WIDTH

    def __init__(self) -> None:
        super().__init__()
        self.stem = NormedConv(3, STEM_WIDTH, kernel=3, stride=2)
        blocks, width = [], STEM_WIDTH
        for stage in STAGES:
            for index in range(stage.num_blocks):
                stride = stage.stride if index == 0 else 1
                blocks.append(InvertedBlock(width, stage, stride))
                width = stage.width
        self.blocks = nn.Sequential(*blocks)
        self.head = NormedConv(width, WIDTH, kernel=1)

    def forward(self, views: Tensor) -> Tensor:
        maps = functional.relu6(self.stem(views))  # [B, 32, H/2, W/2]
        maps = functional.relu6(self.head(self.blocks(maps)))  # [B, 1280, H/32, W/32]
        return maps.mean(dim=(2, 3))


class InvertedBlock(nn.Module):
    """Widen, filter each channel, narrow; around it a residual connection where shapes allow."""

    def __init__(self, width: int, stage: Stage, stride: int) -> None:
        super().__init__()
        inner = width * stage.expansion
        self.expand = NormedConv(width, inner, kernel=1) if stage.expansion > 1 else None
        self.filter = NormedConv(inner, inner, stage.kernel, stride, groups=inner)
        self.project = NormedConv(inner, stage.width, kernel=1)
        self.is_residual = stride == 1 and width == stage.width

    def forward(self, maps: Tensor) -> Tensor:
        inner = maps if self.expand is None else functional.relu6(self.expand(maps))
        inner = self.project(functional.relu6(self.filter(inner)))
        return maps + inner if self.is_residual else inner


class NormedConv(nn.Module):
    """A convolution without bias, then BatchNorm, padded as TensorFlow's SAME.

    With stride 2 and an even side, SAME pads one more pixel at the end than at the beginning; the
    published weights were trained so.
    """

    def __init__(
        self, width_in: int, width_out: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width_in, width_out, kernel, stride, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(width_out, eps=1e-3)
        self._kernel, self._stride = kernel, stride

    def forward(self, maps: Tensor) -> Tensor:
        height, width = self._padding(maps.shape[2]), self._padding(maps.shape[3])
        if height + width > 0:
            edges = (width // 2, width - width // 2, height // 2, height - height // 2)
            maps = functional.pad(maps, edges)
        return self.norm(self.conv(maps))

    def _padding(self, side: int) -> int:
        """Zeros along one side, at both ends together."""
        num_outputs = -(-side // self._stride)
        return max(0, (num_outputs - 1) * self._stride + self._kernel - side)
