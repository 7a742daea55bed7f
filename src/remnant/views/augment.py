"""uint8 batches to float views, for training and for testing, and back.

Most augmentation happens here, on a batch of images of one size. The exception is the random
resized crop of ImageNet (`train="resized-crop-flip"`): a crop of the original picture keeps detail
that a crop of the resized one has lost, so it must happen while the picture is read.
`AugmentConfig.crops_on_read` tells the feeder (`training/batches.py`), which draws four numbers per
image and passes them to `Images.read(positions, draws)`; every kind of images, in memory, in files
or in the replay memory, then crops as `images.crop_box` says. What arrives here is already cropped
and resized, so that only the flip is left to do.

Axes: B images, H height, W width, C channels, GH x GW patches of an image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from remnant.settings import Settings
from remnant.views.rand_augment import NUM_DRAWS, rand_augment


class AugmentConfig(Settings):
    """How training images vary from one epoch to the next."""

    # "resized-crop-flip" crops while images are read, at their full size; see the docstring above.
    train: Literal["none", "flip", "crop", "crop-flip", "resized-crop-flip"] = "crop-flip"
    padding: int = Field(default=4, ge=0)  # pixels on each side, for "crop" and "crop-flip" alone
    # After that, two random changes of colour or shape: rand-m9-mstd0.5-inc1.
    rand_augment: bool = False

    @property
    def crops_on_read(self) -> bool:
        """Training images are read with `draws`, except those of which only some patches count."""
        return self.train == "resized-crop-flip"

    @property
    def num_draws(self) -> int:
        """Uniform numbers that `train_views` wants for each image."""
        return 3 + NUM_DRAWS if self.rand_augment else 3


def train_views(
    images: Tensor,
    is_known: Tensor | None,
    draws: Tensor,
    config: AugmentConfig,
    mean: Sequence[float],
    std: Sequence[float],
    is_aligned: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Normalised random views of a batch, and which of their patches are known.

    The border of a crop is black (0 before normalising), as in the usual CIFAR pipeline. An image
    known only in part is flipped, pixels and patch grid together, and cropped at the borders of
    its patches alone: any other crop would tear them. Nor does RandAugment touch it, for the same
    reason. Where patches are larger than the padding, it keeps its frame.

    Args:
        images: uint8 [B, H, W, C].
        is_known: bool [B, GH, GW], or None when all patches are known.
        is_aligned: bool [B], whole images that are treated like those known in part.
        draws: Uniform in [0, 1), [B, num_draws]: row offset, column offset, flip, RandAugment.

    Returns:
        float [B, C, H, W], and bool [B, GH, GW] or None.
    """
    planes = images.permute(0, 3, 1, 2)  # [B, C, H, W]
    draws = draws.to(images.device)
    is_aligned = _is_aligned(is_known, is_aligned)
    if config.train == "none":
        return _normalise(_vary(planes, is_aligned, draws, config, mean), mean, std), is_known
    padding = config.padding if config.train in ("crop", "crop-flip") else 0
    offsets = (draws[:, :2] * (2 * padding + 1)).long()  # [B, 2]
    is_flipped = (draws[:, 2] < 0.5) & (config.train != "crop")  # digits have no mirror images
    if is_aligned is not None:
        offsets = torch.where(is_aligned[:, None], padding, offsets)
    if is_known is not None and is_aligned is not None:
        (height, width), (rows, columns) = planes.shape[2:], is_known.shape[1:]
        sides = torch.tensor([height // rows, width // columns], device=draws.device)
        moves = _whole_moves(draws[:, :2], padding // sides, is_aligned)
        offsets += moves * sides
        is_known = _roll_known(is_known, moves)
    if is_known is not None:
        is_known = torch.where(is_flipped[:, None, None], is_known.flip(2), is_known)
    planes = _crop_and_flip(planes, offsets, is_flipped, padding)
    return _normalise(_vary(planes, is_aligned, draws, config, mean), mean, std), is_known


def _is_aligned(is_known: Tensor | None, is_aligned: Tensor | None) -> Tensor | None:
    """Which images keep their patches: those known in part, and others that must look like them."""
    if is_known is None:
        return is_aligned
    is_partial = ~is_known.flatten(1).all(dim=1)
    return is_partial if is_aligned is None else is_partial | is_aligned


def _whole_moves(draws: Tensor, reach: Tensor, is_moved: Tensor) -> Tensor:
    """By how many patches a crop moves down and right, at most `reach` [2]: int64 [B, 2]."""
    moves = (draws * (2 * reach + 1)).long() - reach
    return torch.where(is_moved[:, None], moves, 0)


def _roll_known(is_known: Tensor, moves: Tensor) -> Tensor:
    """The grid [B, GH, GW] moved along with its image, and round its edges.

    For every known patch that leaves the image, one of the border that comes in at the other side
    counts as known: black, as that of any crop. If the known patches were a random choice of all,
    they still are, so that borders are seen as often as behind a random mask of a cropped image.
    """
    height, width = is_known.shape[1:]
    rows = (torch.arange(height, device=moves.device) + moves[:, :1]) % height  # [B, GH]
    columns = (torch.arange(width, device=moves.device) + moves[:, 1:]) % width  # [B, GW]
    places = rows[:, :, None] * width + columns[:, None, :]
    return is_known.flatten(1).gather(1, places.flatten(1)).view_as(is_known)


def _vary(
    planes: Tensor,
    is_aligned: Tensor | None,
    draws: Tensor,
    config: AugmentConfig,
    mean: Sequence[float],
) -> Tensor:
    """Whole images after RandAugment, where the config says so; the others unchanged."""
    if not config.rand_augment:
        return planes
    varied = rand_augment(planes, draws[:, 3:], 255 * torch.tensor(mean))
    if is_aligned is None:
        return varied
    return torch.where(is_aligned[:, None, None, None], planes, varied)


def plain_views(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """uint8 [B, H, W, C] to normalised float [B, C, H, W]."""
    return _normalise(images.permute(0, 3, 1, 2), mean, std)


def to_images(views: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """[B, C, H, W] to uint8 [B, H, W, C], rounded and clipped: exactly undoes `plain_views`."""
    scale, shift = _scale_and_shift(views, mean, std)
    levels = (views.float() - shift) / scale
    return levels.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def _crop_and_flip(planes: Tensor, offsets: Tensor, is_flipped: Tensor, padding: int) -> Tensor:
    """Crops of the zero-padded planes at `offsets`, then mirrored where flipped: [B, C, H, W].

    Both moves are one `gather` over flat pixel numbers, while the pixels are still bytes: several
    times faster than advanced indexing.
    """
    batch, channels, height, width = planes.shape
    padded = F.pad(planes, (padding, padding, padding, padding))
    columns = torch.arange(width, device=planes.device)
    rows = torch.arange(height, device=planes.device) + offsets[:, :1]  # [B, H]
    columns = torch.where(is_flipped[:, None], columns.flip(0), columns) + offsets[:, 1:]  # [B, W]
    pixels = rows[:, :, None] * padded.shape[3] + columns[:, None, :]  # [B, H, W]
    pixels = pixels.reshape(batch, 1, height * width).expand(-1, channels, -1)
    flat = padded.reshape(batch, channels, padded.shape[2] * padded.shape[3])
    return flat.gather(2, pixels).reshape(batch, channels, height, width)


def _normalise(planes: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    scale, shift = _scale_and_shift(planes, mean, std)
    return planes.to(torch.float32, memory_format=torch.contiguous_format).mul_(scale).add_(shift)


def _scale_and_shift(
    planes: Tensor, mean: Sequence[float], std: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """What turns byte values into normalised ones, per channel, each [C, 1, 1]."""
    assert planes.shape[1] == len(mean) == len(std), "one mean and one deviation per channel"
    centre = torch.tensor(mean, dtype=torch.float64).view(-1, 1, 1)
    spread = torch.tensor(std, dtype=torch.float64).view(-1, 1, 1)
    scale, shift = (1 / (255 * spread)).float(), (-centre / spread).float()
    return scale.to(planes.device), shift.to(planes.device)
