"""Where an image shows its class: class-activation maps, boxes around them, and what is outside.

[cam] Zhou et al., CVPR 2016. [cim] Luo et al., CVPR 2023.

Axes: B images, C channels, H x W pixels, h x w places of a map.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def activation_maps(maps: Tensor, rows: Tensor) -> Tensor:
    """Maps [B, C, h, w] weighted by the classifier's rows [B, C], each from 0 to 1: [B, 1, h, w].

    A flat map is 0 everywhere.
    """
    heat = torch.einsum("bchw,bc->bhw", maps, rows)[:, None]  # [cam]
    heat = heat - heat.amin(dim=(2, 3), keepdim=True)
    top = heat.amax(dim=(2, 3), keepdim=True)
    return heat / torch.where(top > 0, top, 1.0)


def tight_boxes(is_inside: Tensor) -> Tensor:
    """Top, left, height and width of the smallest boxes around what is true: [B, H, W] -> [B, 4].

    Nothing true: all 0.
    """
    sides = []
    for axis in (2, 1):  # rows that have something, then columns
        has_some = is_inside.any(dim=axis).long()  # [B, H] or [B, W]
        first = has_some.argmax(dim=1)
        last = has_some.shape[1] - 1 - has_some.flip(1).argmax(dim=1)
        length = (last - first + 1) * has_some.amax(dim=1)
        sides.append((first, length))
    (top, height), (left, width) = sides
    return torch.stack([top, left, height, width], dim=1)


def blur(views: Tensor, factor: int) -> Tensor:
    """Views [B, C, H, W] with the mean of its square in place of each pixel, as `boxed` has it."""
    height, width = views.shape[2:]
    small = F.avg_pool2d(views, factor, ceil_mode=True)
    whole = small.repeat_interleave(factor, dim=2).repeat_interleave(factor, dim=3)
    return whole[:, :, :height, :width]
