"""Learning without forgetting: no exemplars; new images must get the old scores that they had.

[lwf] Li and Hoiem, ECCV 2016. [icarl] Rebuffi et al., CVPR 2017, whose LwF.MC is the sigmoid loss.

Departs from [lwf]: one softmax spans all old classes, as in PyCIL, FACIL and mammoth, since
a class-incremental learner predicts without knowing the task; the paper has one per task.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import torch
from torch import nn
from torch.nn import functional as F

from remnant.errors import InputError
from remnant.images import Task
from remnant.losses import sigmoid_losses
from remnant.methods.backbones import BackboneConfig, build_linear_network
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.distillation import DistillationConfig, distill
from remnant.methods.local_softmax import require_rivals
from remnant.methods.teacher import Frozen, make_teacher
from remnant.phases import Batch, Phase, Reader, Schedule, Terms


class LwFConfig(MethodConfig):
    name: Literal["lwf"] = "lwf"
    backbone: BackboneConfig = BackboneConfig()
    # "softmax": cross-entropy and distillation; "sigmoid": one binary cross-entropy over all
    # classes, the LwF.MC of [icarl], which uses none of the settings below
    loss: Literal["softmax", "sigmoid"] = "softmax"
    # "new": old scores are left to the teacher, as PyCIL and FACIL do; "seen": pushes them down
    softmax_over: Literal["new", "seen"] = "new"
    # Weight 3: PyCIL. FACIL has 1 (its grid search starts at 10), mammoth 0.5 with a warm-up.
    distillation: DistillationConfig = DistillationConfig(weight=3.0)
    warmup: Schedule | None = (
        None  # of the new rows alone, before each later task [lwf]; PyCIL: none
    )

    def check_task(self, index: int, num_new_classes: int) -> None:
        if self.loss == "softmax" and self.softmax_over == "new":
            require_rivals(index, num_new_classes)


class LwF(Method[LwFConfig]):
    Config = LwFConfig
    uses_memory: ClassVar[bool] = False
    has_one_row_per_class: ClassVar[bool] = True

    def __init__(self, config: LwFConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        if config.warmup is not None and config.warmup.optimizer.weight_decay > 0:
            raise InputError(
                "method.warmup.optimizer.weight_decay must be 0, since a warm-up leaves the rows "
                f"of old classes alone; got {config.warmup.optimizer.weight_decay}."
            )
        self.backbone, self.classifier = build_linear_network(config.backbone, context.num_channels)
        self.teacher: Frozen[nn.Sequential] | None = None
        self.num_old_classes = 0

    def begin_task(self, task: Task, reader: Reader) -> None:
        self.num_old_classes = task.num_old_classes
        self.teacher = make_teacher(self.backbone, self.classifier) if task.index > 0 else None
        super().begin_task(task, reader)

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        if self.config.warmup is not None and task.index > 0:
            rows = self.classifier.parameters()
            yield self.phase(
                "warm-up", task.train, self.config.warmup, parameters=rows, loss=self.warmup_loss
            )
        yield from super().phases(task, reader)

    def loss(self, batch: Batch) -> Terms:
        scores = self.predict(batch.views)  # [B, K]
        old = None if self.teacher is None else self.teacher(batch.views)  # [B, K_old]
        if self.config.loss == "sigmoid":
            classify, soft = sigmoid_losses(scores, batch.labels, old)
            return {"classify": classify} | ({} if old is None else {"distill": soft})
        first = self.num_old_classes if self.config.softmax_over == "new" else 0
        terms = {"classify": F.cross_entropy(scores[:, first:], batch.labels - first)}
        if old is not None:
            terms["distill"] = distill(self.config.distillation, scores, old)
        return terms

    def warmup_loss(self, batch: Batch) -> Terms:
        """Cross-entropy over the new classes, with features as the teacher sees them."""
        self.backbone.eval()  # its batch statistics stay; the next phase trains it again
        with torch.no_grad():
            features = self.backbone(batch.views)
        first = self.num_old_classes
        scores = self.classifier(features)[:, first:]
        return {"classify": F.cross_entropy(scores, batch.labels - first)}
