"""Wide, shallow convolutions that see whole images or some cells of a grid of units.

[spark] Tian et al., ICLR 2023: hidden cells are set to zero after every layer, and normalisation
counts visible cells alone, so that nothing behind a mask is ever read.

A stage halves the map; after the last one a cell stands for one unit of 2^stages pixels. A pool of
2 x 2 never reaches over the border of a unit, so a cell is either visible or hidden as a whole.

Axes: B images, C channels, H height, W width, GH x GW units, N visible cells, D width.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class MaskedNorm(nn.Module):
    """Batch normalisation and GELU, over visible cells alone.

    Whole images and masked ones have statistics and weights of their own: the border of a hidden
    cell changes what its neighbours see, and tests show whole images. A window counts as whole.

    Args:
        has_masks: Without it only whole images can be seen.
        has_gelu: Without it features keep their sign.
    """

    def __init__(self, num_channels: int, *, has_masks: bool, has_gelu: bool = True) -> None:
        super().__init__()
        self.whole = nn.BatchNorm2d(num_channels)
        self.masked = nn.BatchNorm1d(num_channels) if has_masks else None
        self.has_gelu = has_gelu

    def forward(self, maps: Tensor, visible: Tensor | None) -> Tensor:
        """Maps [B, C, H, W]; `visible` bool [B, H, W], None for whole images."""
        return self.activate(self.normalise(maps, visible))

    def activate(self, maps: Tensor) -> Tensor:
        return F.gelu(maps) if self.has_gelu else maps  # 0, where hidden, stays 0

    def normalise(self, maps: Tensor, visible: Tensor | None) -> Tensor:
        if visible is None:
            return self.whole(maps)
        assert self.masked is not None, "this network was made for whole images"
        rows = maps.permute(0, 2, 3, 1).flatten(0, 2)  # [B * H * W, C]
        places = visible.flatten().nonzero().flatten()  # [N]
        cells = rows.index_select(0, places)
        if len(cells) > 1:
            cells = self.masked(cells)
            # Of several processes, one may have no masked row at a step: none of them counts.
            if self.masked.num_batches_tracked is not None:
                self.masked.num_batches_tracked.zero_()
        elif len(cells) == 1:  # a single cell has no deviation
            norm = self.masked
            cells = F.batch_norm(cells, norm.running_mean, norm.running_var, norm.weight, norm.bias)
        normed = torch.zeros_like(rows).index_copy(0, places, cells)
        return normed.unflatten(0, (len(maps), *maps.shape[2:])).permute(0, 3, 1, 2)


class Stage(nn.Module):
    """Two 3x3 convolutions with a max-pool between, which halves the map."""

    def __init__(
        self, num_inputs: int, num_outputs: int, *, has_masks: bool, has_gelu: bool = True
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(num_inputs, num_outputs, 3, padding=1, bias=False)
        self.norm1 = MaskedNorm(num_outputs, has_masks=has_masks)
        self.conv2 = nn.Conv2d(num_outputs, num_outputs, 3, padding=1, bias=False)
        self.norm2 = MaskedNorm(num_outputs, has_masks=has_masks, has_gelu=has_gelu)

    def add(self, maps: Tensor, visible: Tensor | None) -> Tensor:
        """Everything but the last GELU; `visible` is that of the halved map."""
        # What a convolution writes into hidden cells is dropped by the norm behind it.
        halved = self.norm1(F.max_pool2d(self.conv1(maps), 2), visible)
        return self.norm2.normalise(self.conv2(halved), visible)

    def forward(self, maps: Tensor, visible: Tensor | None) -> Tensor:
        return self.norm2.activate(self.add(maps, visible))


class ConvEncoder(nn.Module):
    """A stem and stages of convolutions: views to maps with one cell per unit, or to features.

    Args:
        channels: Of each stage.
        stem_channels: Of the first convolution, at full resolution.
        has_masks: Whether images can be seen in part.
        has_last_gelu: Without it features keep their sign, as cosine classifiers need.
    """

    def __init__(
        self,
        channels: tuple[int, ...],
        *,
        stem_channels: int = 24,
        num_channels: int = 3,
        has_masks: bool = False,
        has_last_gelu: bool = True,
    ) -> None:
        super().__init__()
        self.width = channels[-1]  # D
        self.unit = 2 ** len(channels)  # pixels on the side of what a cell stands for
        self.conv = nn.Conv2d(num_channels, stem_channels, 3, padding=1, bias=False)
        self.norm = MaskedNorm(stem_channels, has_masks=has_masks)
        self.stages = nn.ModuleList(
            Stage(
                before,
                width,
                has_masks=has_masks,
                has_gelu=has_last_gelu or index < len(channels) - 1,
            )
            for index, (before, width) in enumerate(
                zip((stem_channels, *channels), channels, strict=False)
            )
        )

    def maps(self, views: Tensor, visible: Tensor | None = None) -> Tensor:
        """[B, C, H, W] -> [B, D, GH, GW]; hidden units, false in `visible` [B, GH, GW], are 0."""
        return self.all_maps(views, visible)[-1]

    def all_maps(self, views: Tensor, visible: Tensor | None) -> list[Tensor]:
        """The map of each stage, each half as high and wide as the one before it."""
        current, masks = self._stem(views, visible)
        found = []
        for stage, mask in zip(self.stages, masks, strict=True):
            current = stage(current, mask)
            found.append(current)
        return found

    def forward(self, views: Tensor) -> Tensor:
        """Features [B, D] of whole images."""
        return self.maps(views).mean(dim=(2, 3))

    def with_sums(self, views: Tensor) -> tuple[Tensor, list[list[Tensor]]]:
        """Features [B, D], and the map of each stage before its last GELU."""
        current, _ = self._stem(views, None)
        sums: list[list[Tensor]] = []
        for stage in self.stages:
            assert isinstance(stage, Stage), "the encoder is made of stages"
            sums.append([stage.add(current, None)])
            current = stage.norm2.activate(sums[-1][0])
        return current.mean(dim=(2, 3)), sums

    def _stem(self, views: Tensor, visible: Tensor | None) -> tuple[Tensor, list[Tensor | None]]:
        """The first maps, at full resolution, and what is visible in the map of each stage."""
        views = views.contiguous(memory_format=torch.channels_last)
        if visible is None:
            return self.norm(self.conv(views), None), [None] * len(self.stages)
        sides = [self.unit >> (index + 1) for index in range(len(self.stages))]
        pixels = _spread(visible, self.unit)
        # Not a product: a hidden pixel can be anything, infinite too.
        seen = views.masked_fill(~pixels[:, None], 0)
        return self.norm(self.conv(seen), pixels), [_spread(visible, side) for side in sides]


def _spread(visible: Tensor, side: int) -> Tensor:
    """Units [B, GH, GW] -> the cells of a map with `side` cells on the side of a unit."""
    return visible.repeat_interleave(side, 1).repeat_interleave(side, 2)


@contextmanager
def uncounted(network: nn.Module) -> Iterator[None]:
    """Normalise by the statistics of a batch without counting it in those that are kept."""
    norms = [one for one in network.modules() if isinstance(one, MaskedNorm)]
    parts = [part for norm in norms for part in (norm.whole, norm.masked) if part is not None]
    momenta = [part.momentum for part in parts]
    try:
        for part in parts:
            part.momentum = 0.0
        yield
    finally:
        for part, momentum in zip(parts, momenta, strict=True):
            part.momentum = momentum
