"""Weight alignment: replay and distillation, then new rows of the classifier as long as old ones.

[wa] Zhao et al., CVPR 2020.

Few exemplars among many new images make the rows of new classes long, and so their scores large.
After each task they are scaled to the mean length of the old rows; nothing is learned for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import nn
from torch.nn import functional as F

from remnant.images import Task
from remnant.methods.backbones import BackboneConfig, build_linear_network
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.distillation import DistillationConfig, distill
from remnant.methods.teacher import Frozen, make_teacher
from remnant.models.classifier import align_new_rows
from remnant.phases import Batch, Phase, Reader, Terms


class WAConfig(MethodConfig):
    name: Literal["wa"] = "wa"
    backbone: BackboneConfig = BackboneConfig()
    distillation: DistillationConfig = DistillationConfig()  # PyCIL; lambda comes on top
    align_weights: bool = True  # off: what alignment brings, in comparison
    # Weights of the classifier are clipped at 0 after every step, as [wa] does; PyCIL does not.
    has_positive_rows: bool = False
    # Of the cross-entropy, beside old classes; None: 1 - lambda, the share of new classes [wa].
    classify_weight: float | None = Field(default=None, gt=0)


class WA(Method[WAConfig]):
    Config = WAConfig
    corrects_prior: ClassVar[bool] = True
    has_one_row_per_class: ClassVar[bool] = True

    def __init__(self, config: WAConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.backbone, self.classifier = build_linear_network(config.backbone, context.num_channels)
        self.teacher: Frozen[nn.Sequential] | None = None

    def begin_task(self, task: Task, reader: Reader) -> None:
        self.teacher = make_teacher(self.backbone, self.classifier) if task.index > 0 else None
        super().begin_task(task, reader)

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        for phase in super().phases(task, reader):
            after_step = self.clip_rows if self.config.has_positive_rows else None
            players = [replace(player, after_step=after_step) for player in phase.players]
            yield replace(phase, players=tuple(players))

    def loss(self, batch: Batch) -> Terms:
        scores = self.predict(batch.views)  # [B, K]
        classify = F.cross_entropy(batch.corrected(scores), batch.labels)
        if self.teacher is None:
            return {"classify": classify}
        old = self.teacher(batch.views)  # [B, K_old]
        old_share = old.shape[1] / scores.shape[1]  # [wa] lambda
        soft = distill(self.config.distillation, scores, old)
        weight = self.config.classify_weight or 1 - old_share
        return {"classify": weight * classify, "distill": old_share * soft}

    def end_task(self, task: Task, reader: Reader) -> None:
        if self.config.align_weights and task.index > 0:
            align_new_rows(self.classifier, task.num_old_classes)  # the next teacher has them so
        super().end_task(task, reader)

    @torch.no_grad()
    def clip_rows(self) -> None:
        self.classifier.weight.clamp_(min=0)
