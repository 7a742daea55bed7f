"""A vision transformer in the forms in which pretrained weights are published.

[vit] Dosovitskiy et al., ICLR 2021. [dinov2] Oquab et al., 2023 (layer scale; registers, Darcet et
al., ICLR 2024).

Axes: B images, H height, W width, N patches, R registers, D width.
"""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from remnant.models.vit import Attention
from remnant.settings import Settings

Positive = Annotated[int, Field(ge=1)]


class ViTShape(Settings):
    """Sizes, and what a family of networks adds."""

    width: Positive
    depth: Positive
    head_width: Positive
    mlp_width: Positive
    patch_size: Positive
    grid: Positive  # patches per side
    num_registers: int = Field(default=0, ge=0)
    has_layer_scale: bool = False  # [dinov2]
    norm_eps: float = Field(default=1e-6, gt=0)


class PretrainedViT(nn.Module):
    """Views [B, 3, H, W] -> the class token [B, D] after the last norm."""

    def __init__(self, shape: ViTShape) -> None:
        super().__init__()
        self.width = shape.width
        side = shape.patch_size
        self.embed = nn.Conv2d(3, shape.width, side, side)
        self.class_token = nn.Parameter(torch.zeros(1, 1, shape.width))
        self.registers = nn.Parameter(torch.zeros(1, shape.num_registers, shape.width))
        # Of the class token first, then of the patches row by row; registers have none.
        self.positions = nn.Parameter(torch.zeros(1, 1 + shape.grid**2, shape.width))
        self.blocks = nn.Sequential(*(PretrainedBlock(shape) for _ in range(shape.depth)))
        self.norm = nn.LayerNorm(shape.width, eps=shape.norm_eps)

    def forward(self, views: Tensor) -> Tensor:
        patches = self.embed(views).flatten(2).transpose(1, 2)  # [B, N, D]
        first = self.class_token.expand(len(views), -1, -1)
        tokens = torch.cat([first, patches], dim=1) + self.positions  # [B, 1 + N, D]
        registers = self.registers.expand(len(views), -1, -1)
        tokens = torch.cat([tokens[:, :1], registers, tokens[:, 1:]], dim=1)  # [B, 1 + R + N, D]
        return self.norm(self.blocks(tokens)[:, 0])


class PretrainedBlock(nn.Module):
    """Attention, then an MLP; each after a norm, scaled, and around a residual connection."""

    def __init__(self, shape: ViTShape) -> None:
        super().__init__()
        width = shape.width
        self.attention_norm = nn.LayerNorm(width, eps=shape.norm_eps)
        self.attention = Attention(width, shape.head_width)
        self.attention_scale = LayerScale(width) if shape.has_layer_scale else nn.Identity()
        self.mlp_norm = nn.LayerNorm(width, eps=shape.norm_eps)
        self.mlp = nn.Sequential(
            nn.Linear(width, shape.mlp_width), nn.GELU(), nn.Linear(shape.mlp_width, width)
        )
        self.mlp_scale = LayerScale(width) if shape.has_layer_scale else nn.Identity()

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attention_scale(self.attention(self.attention_norm(tokens)))
        return tokens + self.mlp_scale(self.mlp(self.mlp_norm(tokens)))


class LayerScale(nn.Module):
    """One learned factor per channel [dinov2]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.factors = nn.Parameter(torch.ones(width))

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens * self.factors
