"""Windows of images: a mask that hides all but one rectangle, whose hidden part costs nothing.

Convolutions save nothing on patches scattered over an image, but they do on a rectangle. Where
hidden cells are zero after every layer, as in `models.masked_convolutions`, and for windows made of
whole units, convolutions over the window alone give what they would give for the whole image with
everything else hidden, by the same statistics.

Axes: B images, C channels, H height, W width.
"""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from torch import Tensor

from remnant.images import Shape, count_visible


def window_size(image_shape: Shape, patch_size: int, mask_ratio: float) -> tuple[int, int]:
    """Height and width of a window in whole patches, at least one in either direction.

    It hides at least `mask_ratio` of an image that has more than one patch in both directions.
    """
    sides = (side // patch_size for side in image_shape[:2])
    shown = (math.isqrt(count_visible(side**2, mask_ratio)) for side in sides)
    height, width = (max(1, side) * patch_size for side in shown)
    return height, width


def epochs_for(epochs: int, mask_ratio: float, whole_ratio: float) -> int:
    """How many epochs take no more than `epochs` of whole images.

    `whole_ratio` of the steps see whole images; the others see windows, which cost what they show.
    """
    shown, whole = 1 - Fraction(str(mask_ratio)), Fraction(str(whole_ratio))
    return int(epochs / (whole + (1 - whole) * shown))


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
