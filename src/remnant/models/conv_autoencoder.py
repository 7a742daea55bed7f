"""A masked autoencoder of convolutions: `masked_convolutions` with a classifier and a decoder.

[spark] Tian et al., ICLR 2023.

Axes: B images, C channels, H height, W width, F = GH x GW units, V visible units, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from remnant.images import Shape
from remnant.models.classifier import LinearClassifier
from remnant.models.masked_autoencoder import is_hidden, patch_grid
from remnant.models.masked_convolutions import ConvEncoder
from remnant.models.masked_network import Encoded, MaskedNetwork


class ConvDecoder(nn.Module):
    """Two convolutions that draw an image from the cells of its visible units.

    Departs from [spark]: the last map alone is decoded, without those of earlier stages, which
    makes a step cheaper and a drawing coarser.
    """

    def __init__(self, width: int, unit: int, num_channels: int, hidden_channels: int = 64) -> None:
        super().__init__()
        self.mask_token = nn.Parameter(torch.randn(width) * 0.02)
        self.expand = nn.Conv2d(width, 4 * hidden_channels, 3, padding=1)
        side = unit // 2
        self.to_pixels = nn.Conv2d(hidden_channels, num_channels * side**2, 3, padding=1)
        self.side = side

    def forward(self, maps: Tensor, visible: Tensor | None) -> Tensor:
        """Maps [B, D, GH, GW], `visible` bool [B, GH, GW] -> views [B, C, H, W]."""
        if visible is not None:
            maps = torch.where(visible[:, None], maps, self.mask_token.to(maps)[:, None, None])
        halves = functional.gelu(functional.pixel_shuffle(self.expand(maps), 2))
        return functional.pixel_shuffle(self.to_pixels(halves), self.side)


class ConvMAE(MaskedNetwork):
    """Convolutions over visible units, the mean over their cells, and a decoder.

    Args:
        image_shape: Height, width and channels of the images.
        patch_size: Side of a unit: 2 to the number of stages; divides height and width.
        channels: Of each stage.
        stem_channels: Of the first convolution.
        has_decoder: Without one it classifies and cannot draw.

    Raises:
        ValueError: The sizes do not fit together.
    """

    has_detail_branch = False

    def __init__(
        self,
        *,
        image_shape: Shape,
        patch_size: int,
        channels: tuple[int, ...],
        stem_channels: int,
        has_decoder: bool = True,
    ) -> None:
        super().__init__()
        if patch_size != 2 ** len(channels):
            raise ValueError(
                f"{len(channels)} stages of convolutions see units of {2 ** len(channels)} pixels; "
                f"got a patch_size of {patch_size}. Set patch_size={2 ** len(channels)}, or give "
                "channels for another number of stages."
            )
        self.grid = patch_grid(image_shape, patch_size)
        self.num_patches = self.grid[0] * self.grid[1]
        num_channels = image_shape[2]
        self.encoder = ConvEncoder(
            channels, stem_channels=stem_channels, num_channels=num_channels, has_masks=True
        )
        self.decoder = None
        if has_decoder:
            self.decoder = ConvDecoder(self.encoder.width, patch_size, num_channels)
        self.classifier = LinearClassifier(self.encoder.width)

    def encode(self, views: Tensor, visible_ids: Tensor | None) -> Encoded:
        """Maps [B, D, GH, GW] with zeros in the cells of hidden units."""
        return Encoded(self.encoder.maps(views, self._visible(visible_ids)), None, visible_ids)

    def pool(self, encoded: Encoded) -> Tensor:
        """The mean over visible cells: [B, D]."""
        ids = encoded.visible_ids
        count = self.num_patches if ids is None else ids.shape[1]
        return encoded.main.sum(dim=(2, 3)) / count

    def draw(self, encoded: Encoded) -> Tensor:
        """Views [B, C, H, W]."""
        assert self.decoder is not None, "only a network with a decoder is asked to draw"
        return self.decoder(encoded.main, self._visible(encoded.visible_ids))

    def _visible(self, visible_ids: Tensor | None) -> Tensor | None:
        if visible_ids is None:
            return None
        return ~is_hidden(visible_ids, self.num_patches).unflatten(1, self.grid)
