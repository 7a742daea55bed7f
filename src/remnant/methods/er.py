"""Experience replay: train on the new data and the exemplar memory together.

Cross-entropy over all classes seen, every sample with equal weight; no teacher, and no correction
unless `logit_adjustment` asks for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field
from torch.nn import functional as F

from remnant.images import Task
from remnant.methods.backbones import BackboneConfig, build_linear_network
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.logit_adjustment import LogitAdjustment
from remnant.phases import Batch, Phase, Reader, Terms


class ERConfig(MethodConfig):
    name: Literal["er"] = "er"
    backbone: BackboneConfig = BackboneConfig()
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    # Times the log of a class's number of images, taken from its scores after each later task.
    logit_adjustment: float = Field(default=0.0, ge=0)


class ER(Method[ERConfig]):
    Config = ERConfig
    corrects_prior: ClassVar[bool] = True
    takes_known_classes: ClassVar[bool] = True
    has_one_row_per_class: ClassVar[bool] = True

    def __init__(self, config: ERConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.backbone, self.classifier = build_linear_network(config.backbone, context.num_channels)
        self._adjustment = LogitAdjustment(self.classifier, config.logit_adjustment, config)

    def begin_task(self, task: Task, reader: Reader) -> None:
        self._adjustment.undo()
        super().begin_task(task, reader)

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        replay = self.replay()
        yield self.phase("train", task.train, self.config.schedule(task), replay=replay)
        self._adjustment.apply(task, replay)

    def loss(self, batch: Batch) -> Terms:
        scores = batch.corrected(self.predict(batch.views))
        smoothing = self.config.label_smoothing
        return {"classify": F.cross_entropy(scores, batch.labels, label_smoothing=smoothing)}
