"""The network of DyTox: local blocks for all tasks, then one block with a query token per task.

[convit] d'Ascoli et al., ICML 2021. [dytox] Douillard et al., CVPR 2022.

Axes: B images, F patches of an image, N of them seen, D width, H heads, T tasks so far, K classes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from remnant.images import Shape
from remnant.models.masked_autoencoder import patch_grid, patchify, visible_ids_of
from remnant.models.precision import attend, in_float32


class PositionalAttention(nn.Module):
    """Gated positional self-attention: each head mixes by content and by distance [convit]."""

    offsets: Tensor

    def __init__(self, width: int, head_width: int, grid: tuple[int, int]) -> None:
        super().__init__()
        num_heads = _count_heads(width, head_width)
        self.head_width = head_width
        self.queries_keys = nn.Linear(width, 2 * width, bias=False)
        self.values = nn.Linear(width, width, bias=False)
        self.positions = nn.Linear(3, num_heads)
        self.gate = nn.Parameter(torch.ones(num_heads))  # before a sigmoid; large: by distance
        self.project = nn.Linear(width, width)
        self.register_buffer("offsets", patch_offsets(*grid), persistent=False)  # [F, F, 3]

    def forward(self, tokens: Tensor, visible_ids: Tensor | None = None) -> Tensor:
        """Mix `tokens` [B, N, D] of the patches `visible_ids` [B, N]; None: of all, in order."""
        queries, keys = split_heads(self.queries_keys(tokens), 2, self.head_width)
        (values,) = split_heads(self.values(tokens), 1, self.head_width)  # [B, H, N, D/H]
        by_content = attend(queries, keys, values)
        by_position = self._by_position(values, visible_ids)
        # The weights of both sum to 1, so the renormalisation of [convit] would change nothing.
        gate = self.gate.sigmoid()[:, None, None]
        mixed = (1 - gate) * by_content + gate * by_position
        return self.project(mixed.transpose(1, 2).flatten(2))  # [B, N, D]

    def _by_position(self, values: Tensor, visible_ids: Tensor | None) -> Tensor:
        logits = self.positions(self.offsets).permute(2, 0, 1)  # [H, F, F], the same for all images
        if visible_ids is None:
            return torch.einsum("hnm,bhmd->bhnd", logits.softmax(dim=-1), values)
        logits = logits[:, visible_ids[:, :, None], visible_ids[:, None, :]]  # [H, B, N, N]
        return torch.einsum("hbnm,bhmd->bhnd", logits.softmax(dim=-1), values)

    @torch.no_grad()
    def start_as_convolution(self) -> None:
        """Heads look at the cells of the largest square that they suffice for; others are random.

        12 heads make 3 x 3 cells around a patch, 4 heads 2 x 2. Values start as the tokens.
        """
        nn.init.eye_(self.values.weight)
        side = int(len(self.gate) ** 0.5)
        centre = (side - 1) / 2
        for row in range(side):
            for column in range(side):
                # -(distance to the cell)^2 but for a constant; strength 1.
                cell = torch.tensor([2 * (column - centre), 2 * (row - centre), -1.0])
                self.positions.weight[row + side * column] = cell.to(self.positions.weight)


class LocalBlock(nn.Module):
    """Gated positional attention, then an MLP: the self-attention block of [dytox]."""

    def __init__(self, width: int, head_width: int, mlp_width: int, grid: tuple[int, int]) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = PositionalAttention(width, head_width, grid)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = _make_mlp(width, mlp_width)

    def forward(
        self, tokens: Tensor, visible_ids: Tensor | None = None, factors: Tensor | None = None
    ) -> Tensor:
        """[B, N, D] -> [B, N, D]; `factors` [B, 1, 2] of the two residuals, None: 1."""
        attended = self.attention(self.attention_norm(tokens), visible_ids)
        tokens = tokens + _scale(attended, factors, 0)
        return tokens + _scale(self.mlp(self.mlp_norm(tokens)), factors, 1)


class TaskAttention(nn.Module):
    """What each task token takes from itself and the patches.

    Every token attends to the patches and to itself alone, as if it were the only one. Keys and
    values of patches do not depend on the token, and queries do not on the image: each is computed
    once.
    """

    def __init__(self, width: int, head_width: int) -> None:
        super().__init__()
        _count_heads(width, head_width)
        self.head_width = head_width
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.project = nn.Linear(width, width)

    def forward(self, task_tokens: Tensor, patches: Tensor) -> Tensor:
        """Task tokens [T, D] and patches [B, N, D] -> [B, T, D]."""
        queries, own_keys, own_values = (
            split_heads(layer(task_tokens)[None], 1, self.head_width)[0]  # [1, H, T, D/H]
            for layer in (self.query, self.key, self.value)
        )
        keys, values = (
            split_heads(layer(patches), 1, self.head_width)[0]  # [B, H, N, D/H]
            for layer in (self.key, self.value)
        )
        queries = queries * self.head_width**-0.5
        to_patches = queries @ keys.transpose(2, 3)  # [B, H, T, N]
        to_self = (queries * own_keys).sum(dim=3, keepdim=True)  # [1, H, T, 1]
        logits = torch.cat([to_self.expand(patches.shape[0], -1, -1, -1), to_patches], dim=3)
        weights = logits.softmax(dim=3)
        mixed = weights[..., :1] * own_values + weights[..., 1:] @ values  # [B, H, T, D/H]
        return self.project(mixed.transpose(1, 2).flatten(2))


class TaskBlock(nn.Module):
    """Task attention, then an MLP, on task tokens alone: the task-attention block of [dytox]."""

    def __init__(self, width: int, head_width: int, mlp_width: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = TaskAttention(width, head_width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = _make_mlp(width, mlp_width)

    def forward(
        self, task_tokens: Tensor, patches: Tensor, factors: Tensor | None = None
    ) -> Tensor:
        """Task tokens [T, D] and patches [B, N, D] -> embeddings [B, T, D].

        `factors` [B, T, 2] multiply the two residuals of every token; None: 1.
        """
        norm = self.attention_norm
        attended = self.attention(norm(task_tokens), norm(patches))  # [B, T, D]
        tokens = task_tokens + _scale(attended, factors, 0)
        return tokens + _scale(self.mlp(self.mlp_norm(tokens)), factors, 1)


class TaskTransformer(nn.Module):
    """Views to one embedding and the scores of one head per task."""

    def __init__(
        self,
        image_shape: Shape,
        *,
        patch_size: int,
        width: int,
        depth: int,
        head_width: int,
        mlp_width: int,
        drop_path_ratio: float,
        initial_deviation: float,
    ) -> None:
        super().__init__()
        grid = patch_grid(image_shape, patch_size)
        self.patch_size = patch_size
        self.width = width
        self.initial_deviation = initial_deviation
        self.patch_embedding = nn.Linear(image_shape[2] * patch_size**2, width)
        self.position_embedding = nn.Parameter(torch.empty(grid[0] * grid[1], width))
        nn.init.trunc_normal_(self.position_embedding, std=initial_deviation)
        self.blocks = nn.ModuleList(
            LocalBlock(width, head_width, mlp_width, grid) for _ in range(depth)
        )
        self.task_block = TaskBlock(width, head_width, mlp_width)
        for part in (*self.blocks, self.task_block):
            _draw_weights(part, initial_deviation)
        self.task_tokens = nn.ParameterList()  # each [D]
        self.heads = nn.ModuleList()
        self.num_classes = 0  # of all heads
        # Of the blocks in order, the task block last: from 0 in a line.
        self.drop_ratios = [drop_path_ratio * place / depth for place in range(depth + 1)]

    @property
    def num_draws(self) -> int:
        """Uniform numbers that dropping the residuals of one image takes."""
        return 2 * (len(self.blocks) + len(self.task_tokens))

    def grow(self, num_new_classes: int) -> None:
        """A token and a head for a new task; what is there keeps every bit."""
        token = torch.empty_like(self.position_embedding[0])
        nn.init.trunc_normal_(token, std=self.initial_deviation)
        self.task_tokens.append(nn.Parameter(token))
        self.heads.append(self.make_head(num_new_classes))
        self.num_classes += num_new_classes

    def make_head(self, num_outputs: int) -> nn.Sequential:
        """What makes scores of an embedding: LayerNorm and a linear layer, drawn as torch does."""
        head = nn.Sequential(nn.LayerNorm(self.width), nn.Linear(self.width, num_outputs))
        return head.to(self.position_embedding.device)

    def encoder_parameters(self) -> list[nn.Parameter]:
        """Parameters of what comes before the task block."""
        return [
            *self.patch_embedding.parameters(),
            self.position_embedding,
            *self.blocks.parameters(),
        ]

    def forward(
        self, views: Tensor, is_known: Tensor | None = None, draws: Tensor | None = None
    ) -> Tensor:
        """Views [B, C, H, W] -> scores [B, K]; see `embed`."""
        return self.classify(self.embed(views, is_known, draws))

    def embed(
        self, views: Tensor, is_known: Tensor | None = None, draws: Tensor | None = None
    ) -> Tensor:
        """One embedding per image and task.

        Args:
            views: [B, C, H, W].
            is_known: bool [B, GH, GW]; an image enters by its known patches alone, which must be
                equally many for all images that are not whole. None: all are whole.
            draws: Uniform [B, num_draws], which decide what residuals are dropped; None: none are.

        Returns:
            [B, T, D].
        """
        if is_known is None:
            return self._embed(views, None, draws)
        hidden = ~is_known.flatten(1)  # [B, F]
        is_part = hidden.any(dim=1)
        rows = [torch.nonzero(~is_part).flatten(), torch.nonzero(is_part).flatten()]
        found = []
        for chosen, visible_ids in zip(rows, (None, visible_ids_of(hidden[rows[1]])), strict=True):
            if len(chosen):
                some_draws = None if draws is None else draws[chosen]
                found.append(self._embed(views[chosen], visible_ids, some_draws))
        return torch.cat(found)[torch.cat(rows).argsort()]

    def classify(self, embeddings: Tensor) -> Tensor:
        """Embeddings [B, T, D] -> scores [B, K], each head of its own task's embedding."""
        with in_float32(embeddings) as exact:
            pairs = zip(self.heads, exact.unbind(1), strict=True)
            return torch.cat([head(embedding) for head, embedding in pairs], dim=1)

    def _embed(self, views: Tensor, visible_ids: Tensor | None, draws: Tensor | None) -> Tensor:
        patches, places = patchify(views, self.patch_size), self.position_embedding
        if visible_ids is not None:
            patches = patches.take_along_dim(visible_ids[:, :, None], dim=1)  # [B, N, C*P*P]
            places = places[visible_ids]  # [B, N, D]
        tokens = self.patch_embedding(patches) + places  # [B, N, D]
        factors = self._residual_factors(draws)
        for index, block in enumerate(self.blocks):
            here = None if factors is None else factors[:, index : index + 1]
            tokens = block(tokens, visible_ids, here)
        here = None if factors is None else factors[:, len(self.blocks) :]
        return self.task_block(torch.stack(list(self.task_tokens)), tokens, here)

    def _residual_factors(self, draws: Tensor | None) -> Tensor | None:
        """0 for a dropped residual, else what keeps the mean: [B, depth + T, 2]."""
        if draws is None:
            return None
        *local, last = self.drop_ratios
        ratios = draws.new_tensor([*local, *([last] * len(self.task_tokens))])[:, None]
        return (draws.unflatten(1, (-1, 2)) >= ratios) / (1 - ratios)


def patch_offsets(rows: int, columns: int) -> Tensor:
    """From each patch to each other, in patches: (dx, dy, dx^2 + dy^2), [F, F, 3]."""
    row_ids, column_ids = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    down, right = (ids.flatten() - ids.flatten()[:, None] for ids in (row_ids, column_ids))
    return torch.stack([right, down, right**2 + down**2], dim=2).float()


def split_heads(tokens: Tensor, num_parts: int, head_width: int) -> tuple[Tensor, ...]:
    """[B, N, parts * D] -> each part by heads, [B, H, N, D/H]."""
    heads = tokens.unflatten(2, (num_parts, -1, head_width))
    return heads.permute(2, 0, 3, 1, 4).unbind(0)


def _scale(residual: Tensor, factors: Tensor | None, which: int) -> Tensor:
    return residual if factors is None else residual * factors[:, :, which, None]


def _make_mlp(width: int, mlp_width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, mlp_width), nn.GELU(), nn.Linear(mlp_width, width))


def _draw_weights(network: nn.Module, deviation: float) -> None:
    """Truncated normal linear layers and zero biases as in [dytox], but local blocks are local."""
    for part in network.modules():
        if isinstance(part, nn.Linear):
            nn.init.trunc_normal_(part.weight, std=deviation)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    for part in network.modules():
        if isinstance(part, PositionalAttention):
            part.start_as_convolution()


def _count_heads(width: int, head_width: int) -> int:
    if width % head_width:
        raise ValueError(
            f"width must be a multiple of head_width; got {width} and {head_width}. "
            "Change one of them."
        )
    return width // head_width
