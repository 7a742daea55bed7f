"""RandAugment on batches of bytes: two random changes of colour or shape per image.

[randaugment] Cubuk et al., 2020, as the library timm has it under the name rand-m9-mstd0.5-inc1:
of 15 operations two are drawn, each is carried out with probability 0.5 and magnitude
N(9, 0.5^2) of 10, and all of them get stronger as the magnitude rises. Like Pillow, which carries
them out there, operations on colour cut fractions off.

Departs from timm: shapes change by bilinear interpolation; DyTox asks for bicubic.
Departs from timm: what moves in from outside has the mean colour of the data set, not a fixed grey.

Axes: B images, n of them that one operation is for, C channels, H height, W width.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

NUM_OPERATIONS = 2  # per image
NUM_DRAWS = NUM_OPERATIONS * 4  # of each: which, whether at all, magnitude, sign
_MAGNITUDE, _DEVIATION, _MOST = 9.0, 0.5, 10.0
_LUMA = (0.299, 0.587, 0.114)


def rand_augment(planes: Tensor, draws: Tensor, fill: Tensor) -> Tensor:
    """Images uint8 [B, C, H, W], each changed as its row of `draws` says.

    Args:
        planes: Not changed in place.
        draws: Uniform in [0, 1), [B, NUM_DRAWS].
        fill: Colour of what moves in from outside, float [C], 0 to 255.
    """
    planes = planes.clone()
    for which, chance, size, sign in draws.unflatten(1, (NUM_OPERATIONS, 4)).permute(1, 2, 0):
        chosen = (which * (len(_COLOURS) + len(_SHAPES))).long()
        chosen = torch.where(chance < 0.5, chosen, -1)  # [B]
        normal = math.sqrt(2) * torch.erfinv((2 * size - 1).clamp(-1 + 1e-6, 1 - 1e-6))
        level = (_MAGNITUDE + _DEVIATION * normal).clamp(0, _MOST) / _MOST  # [B], 0 to 1
        signed = torch.where(sign < 0.5, -level, level)
        for index, change in enumerate(_COLOURS):
            rows = torch.nonzero(chosen == index).flatten()
            if len(rows):
                planes[rows] = change(planes[rows], _spread(level[rows]), _spread(signed[rows]))
        rows = torch.nonzero(chosen >= len(_COLOURS)).flatten()
        if len(rows):
            shapes = chosen[rows] - len(_COLOURS)
            planes[rows] = _reshape(planes[rows], shapes, signed[rows], fill)
    return planes


# --------------------------------------------------------- colours: planes, level, signed -> planes


def auto_contrast(planes: Tensor, level: Tensor, signed: Tensor) -> Tensor:
    """Each channel stretched to the whole range."""
    low, high = planes.amin(dim=(2, 3), keepdim=True), planes.amax(dim=(2, 3), keepdim=True)
    spread = (high.float() - low).clamp(min=1)
    stretched = ((planes.float() - low) * 255 / spread).to(torch.uint8)
    return torch.where(high > low, stretched, planes)


def equalize(planes: Tensor, level: Tensor, signed: Tensor) -> Tensor:
    """Each channel with a histogram as flat as it can be made by one table of levels."""
    levels = planes.flatten(2).long()  # [n, C, H * W]
    counts = levels.new_zeros(*levels.shape[:2], 256)
    counts.scatter_add_(2, levels, torch.ones_like(levels))
    last = counts.gather(2, levels.amax(dim=2, keepdim=True))
    step = (levels.shape[2] - last) // 255  # [n, C, 1]; 0: there are too few levels
    below = counts.cumsum(2) - counts
    table = ((step // 2 + below) // step.clamp(min=1)).clamp(max=255)
    table = torch.where(step > 0, table, torch.arange(256, device=planes.device))
    return table.gather(2, levels).to(torch.uint8).view_as(planes)


def invert(planes: Tensor, level: Tensor, signed: Tensor) -> Tensor:
    return 255 - planes


def posterize(planes: Tensor, level: Tensor, signed: Tensor) -> Tensor:
    """The highest bits of every value, 4 at level 0 and none at level 1."""
    dropped = 4 + (level * 4).int()
    return ((planes.int() >> dropped) << dropped).to(torch.uint8)


def solarize(planes: Tensor, level: Tensor, signed: Tensor) -> Tensor:
    """Bright values inverted; all of them at level 1."""
    return torch.where(planes >= 256 - (level * 256).int(), 255 - planes, planes)


def solarize_add(planes: Tensor, level: Tensor, signed: Tensor) -> Tensor:
    """Dark values raised by up to 110."""
    raised = (planes.int() + (level * 110).int()).clamp(max=255).to(torch.uint8)
    return torch.where(planes < 128, raised, planes)


def colour(planes: Tensor, level: Tensor, signed: Tensor) -> Tensor:
    """Towards or away from grey."""
    return _blend(_grey(planes), planes, signed)


def contrast(planes: Tensor, level: Tensor, signed: Tensor) -> Tensor:
    """Towards or away from one grey, the mean of the image."""
    mean = (_grey(planes).mean(dim=(2, 3), keepdim=True) + 0.5).floor()
    return _blend(mean, planes, signed)


def brightness(planes: Tensor, level: Tensor, signed: Tensor) -> Tensor:
    """Towards or away from black."""
    return _blend(torch.zeros_like(planes), planes, signed)


def sharpness(planes: Tensor, level: Tensor, signed: Tensor) -> Tensor:
    """Towards or away from a smoothed image; the border, which has no neighbours, stays."""
    kernel = torch.ones(3, 3, device=planes.device)
    kernel[1, 1] = 5
    kernel = (kernel / 13).expand(planes.shape[1], 1, 3, 3)
    smooth = planes.float()
    inner = F.conv2d(smooth, kernel, groups=planes.shape[1]).add(0.5).floor()
    smooth = F.pad(inner, (1, 1, 1, 1)) + smooth * F.pad(torch.zeros_like(inner), (1,) * 4, value=1)
    return _blend(smooth, planes, signed)


def _grey(planes: Tensor) -> Tensor:
    """[n, 1, H, W]: how bright colours look to the eye; other than three channels count alike."""
    num_channels = planes.shape[1]
    shares = _LUMA if num_channels == 3 else (1 / num_channels,) * num_channels
    weights = torch.tensor(shares, device=planes.device).view(-1, 1, 1)
    return (planes * weights).sum(dim=1, keepdim=True).add(0.5).floor()


def _blend(plain: Tensor, planes: Tensor, signed: Tensor) -> Tensor:
    """`planes` at factor 1, `plain` at 0; a level of 1 is a factor of 1.9, or of 0.1."""
    factor = (1 + 0.9 * signed).clamp(min=0.1)
    return (plain + factor * (planes.float() - plain)).clamp(0, 255).to(torch.uint8)


def _spread(levels: Tensor) -> Tensor:
    return levels.view(-1, 1, 1, 1)


# ------------------------------------------------------------------------------------------- shapes

_SHAPES = ("rotate", "shear x", "shear y", "translate x", "translate y")


def _reshape(planes: Tensor, shapes: Tensor, signed: Tensor, fill: Tensor) -> Tensor:
    """Images moved by one affine map each: `shapes` [n] are positions in `_SHAPES`."""
    height, width = planes.shape[2:]
    angle = torch.where(shapes == 0, signed * math.radians(30), 0)
    shear_x, shear_y = (torch.where(shapes == kind, signed * 0.3, 0) for kind in (1, 2))
    # In halves of the image, as `affine_grid` counts; 0.9 halves are 45 % of a side.
    move_x, move_y = (torch.where(shapes == kind, signed * 0.9, 0) for kind in (3, 4))
    by_row, by_column = shear_x - angle.sin(), shear_y + angle.sin()
    by_row, by_column = by_row * height / width, by_column * width / height
    # The edges at the top and at the left stay where they are when the image is sheared.
    move_x, move_y = move_x + shear_x * height / width, move_y + shear_y * width / height
    rows = [
        torch.stack([angle.cos(), by_row, move_x], dim=1),
        torch.stack([by_column, angle.cos(), move_y], dim=1),
    ]
    grid = F.affine_grid(torch.stack(rows, dim=1), list(planes.shape), align_corners=False)
    border = fill.to(planes.device).view(-1, 1, 1)
    # What comes from outside is 0 to `grid_sample`, so colours are counted from the fill.
    moved = F.grid_sample(planes.float() - border, grid, align_corners=False) + border
    return moved.round().clamp(0, 255).to(torch.uint8)


Change = Callable[[Tensor, Tensor, Tensor], Tensor]
_COLOURS: tuple[Change, ...] = (
    auto_contrast,
    equalize,
    invert,
    posterize,
    solarize,
    solarize_add,
    colour,
    contrast,
    brightness,
    sharpness,
)
