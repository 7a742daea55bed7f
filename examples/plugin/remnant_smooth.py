"""Smoothed replay: experience replay with softened targets.

[ls] Szegedy et al., CVPR 2016.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch.nn import functional as F

from remnant.methods import Method, MethodConfig, MethodContext
from remnant.methods.backbones import BackboneConfig, build_linear_network
from remnant.phases import Batch, Terms


class SmoothConfig(MethodConfig):
    name: Literal["smooth"] = "smooth"
    backbone: BackboneConfig = BackboneConfig()
    smoothing: float = Field(default=0.1, ge=0, lt=1)  # [ls]


class Smooth(Method[SmoothConfig]):
    Config = SmoothConfig

    def __init__(self, config: SmoothConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.backbone, self.classifier = build_linear_network(config.backbone, context.num_channels)

    def loss(self, batch: Batch) -> Terms:
        scores = self.predict(batch.views)  # [B, K]
        smoothing = self.config.smoothing
        return {"classify": F.cross_entropy(scores, batch.labels, label_smoothing=smoothing)}
