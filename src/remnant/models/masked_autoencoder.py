"""Parts of a masked autoencoder: patches, masks, encoder and decoder.

[mae] He et al., CVPR 2022. [bimae] Zhai et al., ICCV 2023.
[stem] Touvron et al., *Three things everyone should know about vision transformers*, ECCV 2022.

Axes: B images, C channels, H height, W width, P patch side, F = (H/P) * (W/P) patches,
V visible patches, D token width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from remnant.images import Shape, count_visible
from remnant.models.vit import Block, sine_cosine_code


def patch_grid(image_shape: Shape, patch_size: int) -> tuple[int, int]:
    """Rows and columns of patches.

    Raises:
        ValueError: The patch size does not divide height and width.
    """
    height, width, _ = image_shape
    if patch_size < 1 or height % patch_size or width % patch_size:
        raise ValueError(
            f"patch_size must divide the image's height and width ({height} x {width}); "
            f"got {patch_size}. Choose another patch_size or image size."
        )
    return height // patch_size, width // patch_size


def patchify(views: Tensor, patch_size: int) -> Tensor:
    """Views [B, C, H, W] -> patches [B, F, C*P*P], row by row; `unpatchify` undoes it."""
    cells = views.unflatten(3, (-1, patch_size)).unflatten(2, (-1, patch_size))
    return cells.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def unpatchify(patches: Tensor, patch_size: int, image_shape: Shape) -> Tensor:
    """Patches [B, F, C*P*P], row by row -> views [B, C, H, W]; `patchify` undoes it."""
    rows, columns = patch_grid(image_shape, patch_size)
    cells = patches.unflatten(2, (image_shape[2], patch_size, patch_size))
    cells = cells.unflatten(1, (rows, columns)).permute(0, 3, 1, 4, 2, 5)
    return cells.flatten(4).flatten(2, 3)


def choose_visible(noise: Tensor, mask_ratio: float) -> Tensor:
    """Ids [B, V] of the patches with the smallest of `noise` [B, F], in ascending order.

    Order means nothing to the network; ascending ids are what a stored bitmap of the same patches
    gives back, so both enter the encoder bit for bit alike.
    """
    count = count_visible(noise.shape[1], mask_ratio)
    return noise.argsort(dim=1, stable=True)[:, :count].sort(dim=1).values


def is_hidden(visible_ids: Tensor, num_patches: int) -> Tensor:
    """Bool [B, F], false at `visible_ids` [B, V]; `visible_ids_of` undoes it."""
    hidden = visible_ids.new_ones(len(visible_ids), num_patches, dtype=torch.bool)
    return hidden.scatter(1, visible_ids, False)


def visible_ids_of(hidden: Tensor) -> Tensor:
    """Ascending ids [B, V] of what `hidden` [B, F] leaves, equally many per image; see `is_hidden`.

    Raises:
        ValueError: The images do not all show the same number of patches.
    """
    counts = (~hidden).sum(dim=1)
    if len(counts) and not bool((counts == counts[0]).all()):
        raise ValueError(
            f"every image of a batch must show equally many patches; got {int(counts.min())} "
            f"to {int(counts.max())}"
        )
    count = int(counts[0]) if len(counts) else 0
    return (~hidden).nonzero()[:, 1].reshape(len(hidden), count)


class MaskedEncoder(nn.Module):
    """A vision transformer that sees some patches of an image, split after its first block.

    Args:
        has_mlp_stem: A patch becomes a token through two layers instead of one. Departs from
            [stem]: norms over one token, so that patches stay independent of one another.
    """

    position_code: Tensor

    def __init__(
        self,
        image_shape: Shape,
        patch_size: int,
        *,
        width: int,
        depth: int,
        head_width: int,
        mlp_width: int,
        has_mlp_stem: bool = False,
    ) -> None:
        super().__init__()
        self.patch_size = patch_size
        embedding = nn.Linear(image_shape[2] * patch_size**2, width)
        self.patch_embedding = (
            nn.Sequential(embedding, nn.LayerNorm(width), nn.GELU(), nn.Linear(width, width))
            if has_mlp_stem
            else embedding
        )
        self.class_token = nn.Parameter(torch.zeros(width))
        code = sine_cosine_code(*patch_grid(image_shape, patch_size), width)
        self.register_buffer("position_code", code, persistent=False)  # [F, D]
        self.first = Block(width, head_width, mlp_width)
        self.rest = nn.Sequential(
            *(Block(width, head_width, mlp_width) for _ in range(depth - 1)), nn.LayerNorm(width)
        )

    def embed(self, views: Tensor, visible_ids: Tensor | None) -> Tensor:
        """The class token, then one token per visible patch: [B, V+1, D]; None shows all."""
        patches, code = patchify(views, self.patch_size), self.position_code
        if visible_ids is not None:
            # Pixels are picked before the embedding, so that hidden patches cost nothing.
            patches = patches.take_along_dim(visible_ids[:, :, None], dim=1)  # [B, V, C*P*P]
            code = code[visible_ids]  # [B, V, D]
        tokens = self.patch_embedding(patches) + code  # [B, V, D]
        class_tokens = self.class_token.expand(tokens.shape[0], 1, -1)
        return torch.cat([class_tokens, tokens], dim=1)  # [B, V+1, D]


class MaskedDecoder(nn.Module):
    """One transformer block that turns the tokens of visible patches into a whole image."""

    position_code: Tensor

    def __init__(
        self,
        image_shape: Shape,
        patch_size: int,
        *,
        width: int,
        head_width: int,
        mlp_width: int,
    ) -> None:
        super().__init__()
        self.image_shape = image_shape
        self.patch_size = patch_size
        self.mask_token = nn.Parameter(torch.zeros(width))
        code = sine_cosine_code(*patch_grid(image_shape, patch_size), width)
        code = functional.pad(code, (0, 0, 1, 0))  # the class token, at place 0, has none
        self.register_buffer("position_code", code, persistent=False)  # [F+1, D]
        self.block = Block(width, head_width, mlp_width)
        self.norm = nn.LayerNorm(width)
        self.to_pixels = nn.Linear(width, image_shape[2] * patch_size**2)

    def forward(self, tokens: Tensor, visible_ids: Tensor | None) -> Tensor:
        """Tokens [B, V+1, D], the class token first -> views [B, C, H, W]; None: all visible."""
        tokens = self.block(self._fill(tokens, visible_ids))  # [B, F+1, D]
        patches = self.to_pixels(self.norm(tokens[:, 1:]))  # [B, F, C*P*P]
        return unpatchify(patches, self.patch_size, self.image_shape)

    def _fill(self, tokens: Tensor, visible_ids: Tensor | None) -> Tensor:
        if visible_ids is None:
            return tokens + self.position_code
        places = functional.pad(visible_ids + 1, (1, 0))  # [B, V+1]; the class token keeps place 0
        seen = tokens + self.position_code[places]  # [B, V+1, D]
        blank = self.mask_token + self.position_code  # [F+1, D]
        blank = blank.to(seen.dtype).expand(tokens.shape[0], -1, -1)
        return blank.scatter(1, places[:, :, None].expand_as(seen), seen)  # [B, F+1, D]
