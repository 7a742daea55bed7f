"""Experience replay: train on the new data and the exemplar memory together.

Cross-entropy over all classes seen, every sample with equal weight; no teacher, no correction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field
from torch.nn import functional as F

from remnant.images import Task
from remnant.methods.backbones import BackboneConfig, build_linear_network
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.coded_twins import coded_twins
from remnant.phases import Batch, Phase, Reader, Terms


class ERConfig(MethodConfig):
    name: Literal["er"] = "er"
    backbone: BackboneConfig = BackboneConfig()
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    # How often a new image is shown as the memory would give it back; see `coded_twins`.
    codec_view_ratio: float = Field(default=0.0, ge=0, le=1)


class ER(Method[ERConfig]):
    Config = ERConfig
    corrects_prior: ClassVar[bool] = True
    takes_known_classes: ClassVar[bool] = True
    has_one_row_per_class: ClassVar[bool] = True

    def __init__(self, config: ERConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.backbone, self.classifier = build_linear_network(config.backbone, context.num_channels)

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        twins = (
            coded_twins(self.memory, task.train, reader) if self.config.codec_view_ratio else None
        )
        for phase in super().phases(task, reader):
            yield replace(phase, twins=twins, twin_ratio=self.config.codec_view_ratio)

    def loss(self, batch: Batch) -> Terms:
        scores = batch.corrected(self.predict(batch.views))
        smoothing = self.config.label_smoothing
        return {"classify": F.cross_entropy(scores, batch.labels, label_smoothing=smoothing)}
