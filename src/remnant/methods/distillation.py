"""Knowledge distillation as the methods use it: the conventions of its loss.

Published systems differ by silent factors, so each is a setting; its comment says who uses what.
[kd] Hinton et al., 2015. [ucir] Hou et al., CVPR 2019. [bic] Wu et al., CVPR 2019.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from remnant.losses import distillation_loss
from remnant.settings import Settings


class DistillationConfig(Settings):
    """How closely the scores of old classes are held; defaults as in PyCIL, FACIL and [bic]."""

    weight: float = Field(default=1.0, ge=0)
    temperature: float = Field(default=2.0, gt=0)
    # Equal gradients: the forms differ by the entropy of the teacher, a constant.
    form: Literal["divergence", "cross-entropy"] = "cross-entropy"
    times_temperature_squared: bool = False  # True: [kd], the baselines of [ucir], DyTox
    mean_over: Literal["images", "entries"] = "images"  # "entries": DyTox, K_old times weaker


def distill(config: DistillationConfig, scores: Tensor, teacher_scores: Tensor) -> Tensor:
    """The weighted loss of scores [B, K] against a teacher's [B, K_old] for the old classes."""
    return config.weight * distillation_loss(
        scores[:, : teacher_scores.shape[1]],
        teacher_scores,
        config.temperature,
        form=config.form,
        times_temperature_squared=config.times_temperature_squared,
        mean_over=config.mean_over,
    )
