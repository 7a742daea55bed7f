"""The frequency mask M of Bilateral MAE: a transform that keeps only fine detail.

[bimae] Zhai et al., ICCV 2023.

Axes: B images, C channels, H height, W width, P patch side, F patches.
"""

from __future__ import annotations

from decimal import Decimal

import torch
from torch import Tensor, nn

from remnant.images import Shape
from remnant.models.masked_autoencoder import patchify, unpatchify


def low_frequencies(height: int, width: int, cutoff: float) -> Tensor:
    """Bool [height, width] in the layout of `fft2`: radius <= `cutoff` cycles per pixel.

    Whole-number arithmetic, so that a radius equal to the cutoff is never lost to rounding.
    """
    rows = (torch.arange(height) + height // 2) % height - height // 2
    columns = (torch.arange(width) + width // 2) % width - width // 2
    squares = (rows * width)[:, None] ** 2 + (columns * height)[None, :] ** 2
    return squares <= int((Decimal(str(cutoff)) * height * width) ** 2)


class HighPass(nn.Module):
    """Orthonormal 2-D Fourier transform with every low frequency set to 0 [bimae] M.

    Args:
        image_shape: Height, width and channels of the images.
        cutoff: Largest radius, in cycles per pixel, that is removed.
        patch_size: Transform each patch by itself; None: the image as a whole.
    """

    is_low: Tensor

    def __init__(self, image_shape: Shape, cutoff: float, patch_size: int | None = None) -> None:
        super().__init__()
        if not 0 <= cutoff < 0.5:
            raise ValueError(
                f"cutoff must lie in [0, 0.5) cycles per pixel, for the finest detail to pass; "
                f"got {cutoff}. The default is 0.25."
            )
        self.image_shape = image_shape
        self.patch_size = patch_size
        sides = image_shape[:2] if patch_size is None else (patch_size, patch_size)
        self.register_buffer("is_low", low_frequencies(*sides, cutoff), persistent=False)

    def forward(self, views: Tensor) -> Tensor:
        """Views [B, C, H, W] -> complex spectrum, [B, C, H, W] or per patch [B, F, C, P, P]."""
        pieces = views.to(torch.promote_types(views.dtype, torch.float32))  # no FFT in bf16
        if self.patch_size is not None:
            pieces = patchify(pieces, self.patch_size)
            pieces = pieces.unflatten(2, (-1, self.patch_size, self.patch_size))
        return torch.fft.fft2(pieces, norm="ortho").masked_fill(self.is_low, 0)

    def inverse(self, spectrum: Tensor) -> Tensor:
        """The real views [B, C, H, W] that have this spectrum."""
        pieces = torch.fft.ifft2(spectrum, norm="ortho").real
        if self.patch_size is None:
            return pieces
        return unpatchify(pieces.flatten(2), self.patch_size, self.image_shape)
