"""Parts of a pre-norm vision transformer: attention, block, position code, initial weights.

[vit] Dosovitskiy et al., ICLR 2021. [mae] He et al., CVPR 2022.

Axes: B images, N tokens, Q query tokens, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from remnant.models.precision import attend


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, width: int, head_width: int) -> None:
        super().__init__()
        if width % head_width:
            raise ValueError(
                f"width must be a multiple of head_width; got {width} and {head_width}. "
                "Change one of them."
            )
        self.head_width = head_width
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)

    def forward(self, tokens: Tensor, num_queries: int | None = None) -> Tensor:
        """Mix `tokens` [B, N, D]; with `num_queries`, only the first Q outputs are computed."""
        if num_queries is None:
            queries, keys, values = self._split_heads(self.qkv(tokens), 3)
        else:
            width = tokens.shape[2]
            query_weight, rest_weight = self.qkv.weight.split([width, 2 * width])
            query_bias, rest_bias = self.qkv.bias.split([width, 2 * width])
            projected = functional.linear(tokens[:, :num_queries], query_weight, query_bias)
            (queries,) = self._split_heads(projected, 1)
            keys, values = self._split_heads(functional.linear(tokens, rest_weight, rest_bias), 2)
        mixed = attend(queries, keys, values)
        return self.project(mixed.transpose(1, 2).flatten(2))  # [B, Q, D]

    def _split_heads(self, tokens: Tensor, num_parts: int) -> tuple[Tensor, ...]:
        heads = tokens.unflatten(2, (num_parts, -1, self.head_width))
        return heads.permute(2, 0, 3, 1, 4).unbind(0)  # each [B, heads, N, head_width]


class Block(nn.Module):
    """Attention, then an MLP, each after a LayerNorm and around a residual connection."""

    def __init__(self, width: int, head_width: int, mlp_width: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, head_width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, mlp_width), nn.GELU(), nn.Linear(mlp_width, width)
        )

    def forward(self, tokens: Tensor, num_queries: int | None = None) -> Tensor:
        """[B, N, D] -> [B, N, D]; with `num_queries`, the first Q tokens of that and no others."""
        attended = self.attention(self.attention_norm(tokens), num_queries)
        mixed = tokens[:, :num_queries] + attended  # [B, Q, D]
        return mixed + self.mlp(self.mlp_norm(mixed))


def sine_cosine_code(rows: int, columns: int, width: int) -> Tensor:
    """A fixed code [rows * columns, width] of the places in a grid, row by row, as in [mae].

    Half of the width encodes the column, the other half the row; each half is sines, then cosines.
    """
    if width % 4:
        raise ValueError(
            f"width must be a multiple of 4 for the position code; got {width}. Change the width."
        )
    rates = 10_000.0 ** -(torch.arange(width // 4, dtype=torch.float64) / (width // 4))
    row_ids, column_ids = torch.meshgrid(
        torch.arange(rows, dtype=torch.float64),
        torch.arange(columns, dtype=torch.float64),
        indexing="ij",
    )
    angles = [places.reshape(-1, 1) * rates for places in (column_ids, row_ids)]
    code = torch.cat([wave for angle in angles for wave in (angle.sin(), angle.cos())], dim=1)
    return code.float()


def initialize(network: nn.Module, generator: torch.Generator | None = None) -> None:
    """Xavier-uniform linear layers, zero biases, normal tokens of deviation 0.02, as in [mae]."""
    for part in network.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight, generator=generator)
            nn.init.zeros_(part.bias)
    for name, parameter in network.named_parameters():
        if name.endswith("_token"):
            nn.init.normal_(parameter, std=0.02, generator=generator)
