"""Windows of images: a mask that hides all but one rectangle, whose hidden part costs nothing.

Where hidden cells are zero after every layer, as in `models.masked_convolutions`, convolutions over
the window alone compute what they would of the whole image with everything around it hidden.

Axes: B images, C channels, H height, W width.
"""

from __future__ import annotations

import math
from decimal import Decimal

import torch
from torch import Tensor

from remnant.images import Shape


def window_size(image_shape: Shape, patch_size: int, mask_ratio: float) -> tuple[int, int]:
    """Height and width of a window that hides about `mask_ratio` of an image, in whole patches.

    It hides at least that much, but always leaves one patch in either direction.
    """
    shown = 1 - Decimal(str(mask_ratio))  # exact: 0.4375 of 4 x 4 patches leaves 3 x 3
    sides = (side // patch_size for side in image_shape[:2])
    height, width = (max(1, math.isqrt(int(side**2 * shown))) * patch_size for side in sides)
    return height, width


def epochs_for(epochs: int, shown: float, whole_ratio: float) -> int:
    """How many epochs take as much as `epochs` of whole images.

    `whole_ratio` of the steps see whole images and the others windows, `shown` of an image. Less
    than one epoch of what is saved stays unused.
    """
    return int(epochs / (whole_ratio + (1 - whole_ratio) * shown))


def cut_windows(views: Tensor, size: tuple[int, int], draws: Tensor) -> Tensor:
    """One window [B, C, height, width] of every view [B, C, H, W].

    Args:
        views: The images.
        size: Height and width of the windows.
        draws: [B, 2], uniform from 0 to 1: places from top to bottom and from left to right.
    """
    height, width = size
    room = draws.new_tensor([views.shape[2] - height + 1, views.shape[3] - width + 1])
    top, left = (draws * room).long().unbind(dim=1)  # [B]
    rows = top[:, None] + torch.arange(height, device=views.device)  # [B, height]
    columns = left[:, None] + torch.arange(width, device=views.device)  # [B, width]
    rows = rows[:, None, :, None].expand(-1, views.shape[1], -1, views.shape[3])
    columns = columns[:, None, None, :].expand(-1, views.shape[1], height, -1)
    return views.gather(2, rows).gather(3, columns)
