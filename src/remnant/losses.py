"""Loss terms: pure functions of tensors.

[bimae] Zhai et al., ICCV 2023. [kd] Hinton et al., 2015.
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


def distillation_loss(scores: Tensor, teacher_scores: Tensor, temperature: float) -> Tensor:
    """KL(teacher || student) of softened scores [B, K], mean over images, times temperature^2.

    The factor keeps gradients of the size that they have at temperature 1 [kd].
    """
    student = functional.log_softmax(scores / temperature, dim=1)
    teacher = functional.log_softmax(teacher_scores / temperature, dim=1)
    divergence = functional.kl_div(student, teacher, reduction="batchmean", log_target=True)
    return divergence * temperature**2
