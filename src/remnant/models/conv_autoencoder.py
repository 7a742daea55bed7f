"""A masked autoencoder of convolutions: `masked_convolutions` with a classifier and a decoder.

[spark] Tian et al., ICLR 2023. [bimae] Zhai et al., ICCV 2023, for the detail branch.

Axes: B images, C channels, H height, W width, F = GH x GW units, V visible units, D width.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from remnant.images import Shape
from remnant.models.classifier import LinearClassifier
from remnant.models.frequency import HighPass
from remnant.models.masked_autoencoder import is_hidden, patch_grid
from remnant.models.masked_convolutions import ConvEncoder, uncounted
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


class ConvDetail(nn.Module):
    """H: a cell of the last map's width from what the first stage saw of the same unit alone.

    Linear-GELU-Linear-GELU-Linear as in [bimae], where a cell stands for a token.

    Args:
        num_inputs: Channels of the first stage.
        width: Of the last one.
        side: Cells of the first map on the side of a unit.
    """

    def __init__(self, num_inputs: int, width: int, side: int) -> None:
        super().__init__()
        # Chosen: so many channels that the cells of a unit together are four times the width.
        num_each = -(-4 * width // side**2)
        self.side = side
        self.first = nn.Conv2d(num_inputs, num_each, 1)
        self.second = nn.Conv2d(num_each * side**2, width, 1)
        self.third = nn.Conv2d(width, width, 1)

    def forward(self, maps: Tensor, visible: Tensor | None) -> Tensor:
        """Maps of the first stage -> [B, D, GH, GW], 0 where a unit is hidden."""
        cells = functional.pixel_unshuffle(functional.gelu(self.first(maps)), self.side)
        cells = self.third(functional.gelu(self.second(cells)))
        return cells if visible is None else cells.masked_fill(~visible[:, None], 0)


class ConvMAE(MaskedNetwork):
    """Convolutions over visible units, the mean over their cells, and a decoder.

    Departs from [bimae] where it has a detail branch: z is the mean of the main cells plus a linear
    function of the mean of the detail cells, since there is no class token to ask with.

    Args:
        image_shape: Height, width and channels of the images.
        patch_size: Side of a unit: 2 to the number of stages; divides height and width.
        channels: Of each stage.
        stem_channels: Of the first convolution.
        has_masks: Without it only whole images, or windows of them, can be seen.
        has_decoder: Without one it classifies and cannot draw.
        has_detail_branch: Whether a second branch draws what the first one blurs.
        cutoff: Largest radius, in cycles per pixel, that M removes.
        frequency_per: What M transforms as one piece.

    Raises:
        ValueError: The sizes do not fit together.
    """

    def __init__(
        self,
        *,
        image_shape: Shape,
        patch_size: int,
        channels: tuple[int, ...],
        stem_channels: int,
        has_masks: bool = True,
        has_decoder: bool = True,
        has_detail_branch: bool = False,
        cutoff: float = 0.25,
        frequency_per: Literal["image", "patch"] = "image",
    ) -> None:
        super().__init__()
        self.has_detail_branch = has_detail_branch
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
            channels, stem_channels=stem_channels, num_channels=num_channels, has_masks=has_masks
        )
        self.decoder = None
        if has_decoder:
            self.decoder = ConvDecoder(self.encoder.width, patch_size, num_channels)
        self.classifier = LinearClassifier(self.encoder.width)
        self.frequency = None
        if has_detail_branch:
            width = self.encoder.width
            self.detail_branch = ConvDetail(channels[0], width, patch_size // 2)
            self.fusion = nn.Linear(width, width)
            nn.init.zeros_(self.fusion.weight)  # at first as if there were no detail branch
            nn.init.zeros_(self.fusion.bias)
            piece = patch_size if frequency_per == "patch" else None
            self.frequency = HighPass(image_shape, cutoff, piece)

    def encode(self, views: Tensor, visible_ids: Tensor | None) -> Encoded:
        """Maps [B, D, GH, GW] with zeros in the cells of hidden units."""
        visible = self._visible(visible_ids)
        maps = self.encoder.all_maps(views, visible)
        detail = self.detail_branch(maps[0], visible) if self.has_detail_branch else None
        return Encoded(maps[-1], detail, visible_ids)

    def pool(self, encoded: Encoded) -> Tensor:
        """The mean over visible cells, of both branches: [B, D]."""
        pooled = self._mean(encoded.main, encoded.visible_ids)
        if encoded.detail is None:
            return pooled
        return pooled + self.fusion(self._mean(encoded.detail, encoded.visible_ids))

    def draw(self, encoded: Encoded) -> Tensor:
        return self._decode(encoded.main, encoded.visible_ids)

    def draw_both(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        assert encoded.detail is not None, "this network was made without a detail branch"
        assert encoded.visible_ids is not None, "images are redrawn from some of their units"
        both = torch.cat([encoded.main, encoded.detail])
        coarse, fine = self._decode(both, encoded.visible_ids.repeat(2, 1)).chunk(2)
        return coarse, fine

    def redraw(self, views: Tensor, visible_ids: Tensor) -> Tensor:
        with uncounted(self):  # other units than a step of training shows, and other shares of them
            maps = self.encoder.maps(views, self._visible(visible_ids))
        return self._decode(maps, visible_ids)

    def _decode(self, maps: Tensor, visible_ids: Tensor | None) -> Tensor:
        assert self.decoder is not None, "only a network with a decoder is asked to draw"
        return self.decoder(maps, self._visible(visible_ids))

    def _mean(self, maps: Tensor, visible_ids: Tensor | None) -> Tensor:
        num_cells = maps.shape[2] * maps.shape[3]  # fewer where a view is a window of an image
        count = num_cells if visible_ids is None else visible_ids.shape[1]
        return maps.sum(dim=(2, 3)) / count

    def _visible(self, visible_ids: Tensor | None) -> Tensor | None:
        if visible_ids is None:
            return None
        return ~is_hidden(visible_ids, self.num_patches).unflatten(1, self.grid)
