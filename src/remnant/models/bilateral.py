"""Bilateral MAE: one encoder, a main and a detail branch, one decoder for both.

[bimae] Zhai et al., ICCV 2023. The equations E1 to E7 are composed by the method; each function
here is one term of them.
[cct] Hassani et al., *Escaping the Big Data Paradigm with Compact Transformers*, 2021.

Axes: B images, C channels, H height, W width, F patches, V visible patches, D width, K classes.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from remnant.images import Shape
from remnant.models.classifier import LinearClassifier
from remnant.models.frequency import HighPass
from remnant.models.masked_autoencoder import MaskedDecoder, MaskedEncoder, patch_grid
from remnant.models.masked_network import Encoded, MaskedNetwork
from remnant.models.vit import Block, initialize


class BilateralMAE(MaskedNetwork):
    """The network of [bimae]; its defaults are the paper's.

    Args:
        image_shape: Height, width and channels of the images.
        patch_size: Side of a patch; divides height and width.
        width: Of every token.
        depth: Encoder blocks, the first one shared by both branches.
        head_width: Of one attention head; divides `width`.
        mlp_width: Hidden width in the blocks of encoder and decoder.
        fusion_mlp_width: Hidden width in the fusion block.
        has_detail_branch: Without it H and E have no weights, and z is the main class token.
        cutoff: Largest radius, in cycles per pixel, that M removes.
        frequency_per: What M transforms as one piece.
        pools_patches: The class is read from a weighted mean of the visible patches, with weights
            learned from each of them [cct], and not from the class token. Departs from [cct]: the
            class token stays, for the decoder to carry along.
        has_mlp_stem: See `MaskedEncoder`.
        generator: Source of the initial weights; None: the global one.
    """

    def __init__(
        self,
        *,
        image_shape: Shape,
        patch_size: int,
        width: int = 384,
        depth: int = 5,
        head_width: int = 32,
        mlp_width: int = 1536,
        fusion_mlp_width: int = 1536,
        has_detail_branch: bool = True,
        # Chosen: the paper gives none; half of the way to the finest detail that pixels can hold.
        cutoff: float = 0.25,
        frequency_per: Literal["image", "patch"] = "image",
        pools_patches: bool = False,
        has_mlp_stem: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        rows, columns = patch_grid(image_shape, patch_size)
        self.num_patches = rows * columns
        self.has_detail_branch = has_detail_branch
        blocks = {"width": width, "head_width": head_width, "mlp_width": mlp_width}
        self.encoder = MaskedEncoder(
            image_shape, patch_size, depth=depth, has_mlp_stem=has_mlp_stem, **blocks
        )
        self.decoder = MaskedDecoder(image_shape, patch_size, **blocks)
        if has_detail_branch:
            self.detail_branch = _detail_branch(width)
            self.fusion = Block(width, head_width, fusion_mlp_width)
            self.fusion_norm = nn.LayerNorm(width)
        self.patch_score = nn.Linear(width, 1) if pools_patches else None
        self.classifier = LinearClassifier(width)
        self.frequency = HighPass(
            image_shape, cutoff, patch_size if frequency_per == "patch" else None
        )
        initialize(self, generator)

    def encode(self, views: Tensor, visible_ids: Tensor | None) -> Encoded:
        """Both branches: tokens [B, V+1, D] each."""
        first = self.encode_first(views, visible_ids)
        detail = self.detail(first) if self.has_detail_branch else None
        return Encoded(self.encode_rest(first), detail, visible_ids)

    def pool(self, encoded: Encoded) -> Tensor:
        """z [B, D]."""
        return self.fuse(encoded.main, encoded.detail)

    def draw(self, encoded: Encoded) -> Tensor:
        return self.decode(encoded.main, encoded.visible_ids)  # [bimae] E3

    def draw_both(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        assert encoded.detail is not None, "this network was made without a detail branch"
        assert encoded.visible_ids is not None, "images are redrawn from some of their patches"
        return self.decode_both(encoded.main, encoded.detail, encoded.visible_ids)

    def redraw(self, views: Tensor, visible_ids: Tensor) -> Tensor:
        first = self.encode_first(views, visible_ids)
        return self.decode(self.encode_rest(first), visible_ids)

    def encode_first(self, views: Tensor, visible_ids: Tensor | None) -> Tensor:
        """f = F[:1](mask(x, r)) [B, V+1, D], the class token first; None shows every patch."""
        return self.encoder.first(self.encoder.embed(views, visible_ids))  # [bimae] E1

    def encode_rest(self, first: Tensor) -> Tensor:
        """F[1:](f) [B, V+1, D], with the encoder's last LayerNorm."""
        return self.encoder.rest(first)

    def detail(self, first: Tensor) -> Tensor:
        """H(f) [B, V+1, D]."""
        assert self.has_detail_branch, "this network was made without a detail branch"
        return self.detail_branch(first)

    def fuse(self, main: Tensor, detail: Tensor | None) -> Tensor:
        """z = E(main, detail) [B, D]; `detail` is None where there is no detail branch."""
        if self.patch_score is not None:
            main = self._pool_patches(main)
        if detail is None:
            assert not self.has_detail_branch, "this network fuses both branches"
            return main[:, 0]  # already normalised by the last layer of F[1:]
        tokens = torch.cat([main, detail], dim=1)  # [B, 2(V+1), D]
        # Only the main class token, the first, is computed: nothing else of the block is used.
        return self.fusion_norm(self.fusion(tokens, num_queries=1)[:, 0])  # [bimae] E2

    def _pool_patches(self, main: Tensor) -> Tensor:
        """Tokens [B, V+1, D] with the mean of patches in place of the class token [cct]."""
        assert self.patch_score is not None, "this network reads the class token"
        patches = main[:, 1:]  # [B, V, D]
        weights = self.patch_score(patches).softmax(dim=1)  # [B, V, 1]
        return torch.cat([(weights * patches).sum(dim=1, keepdim=True), patches], dim=1)

    def decode(self, tokens: Tensor, visible_ids: Tensor | None) -> Tensor:
        """D: tokens of either branch [B, V+1, D] -> views [B, C, H, W]."""
        assert self.decoder is not None, "this network always has one"
        return self.decoder(tokens, visible_ids)

    def decode_both(
        self, main: Tensor, detail: Tensor, visible_ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        """D of the main and of the detail tokens in one pass: two times [B, C, H, W]."""
        both = self.decode(torch.cat([main, detail]), visible_ids.repeat(2, 1))
        coarse, fine = both.chunk(2)
        return coarse, fine


def _detail_branch(width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(width, width),
        nn.GELU(),
        nn.Linear(width, width),
        nn.GELU(),
        nn.Linear(width, width),
    )
