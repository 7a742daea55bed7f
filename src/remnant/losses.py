"""Loss terms: pure functions of tensors.

[bimae] Zhai et al., ICCV 2023.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def reconstruction_loss(completed: Tensor, views: Tensor) -> Tensor:
    """Mean squared error over all pixels, visible ones too."""
    return functional.mse_loss(completed, views)  # [bimae] E5


def detail_loss(detail: Tensor, target: Tensor) -> Tensor:
    """Mean modulus of the difference, over all coefficients of two spectra.

    Real tensors are taken as they are: views give the loss in the spatial domain.
    """
    return (detail - target).abs().mean()  # [bimae] E7
