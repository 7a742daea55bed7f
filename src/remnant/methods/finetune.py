"""Finetune: train on each task's new data alone, the lower bound of every comparison.

Nothing is kept and nothing holds the old classes, so they are forgotten.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from torch.nn import functional as F

from remnant.images import Task
from remnant.methods.backbones import BackboneConfig, build_linear_network
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.local_softmax import require_rivals
from remnant.phases import Batch, Reader, Terms


class FinetuneConfig(MethodConfig):
    name: Literal["finetune"] = "finetune"
    backbone: BackboneConfig = BackboneConfig()
    # "seen": the softmax spans all classes seen, which pushes old ones down; "new": only the new
    # ones, as PyCIL and FACIL do, which leaves old scores untouched
    softmax_over: Literal["seen", "new"] = "seen"

    def check_task(self, index: int, num_new_classes: int) -> None:
        if self.softmax_over == "new":
            require_rivals(index, num_new_classes)


class Finetune(Method[FinetuneConfig]):
    Config = FinetuneConfig
    uses_memory: ClassVar[bool] = False
    has_one_row_per_class: ClassVar[bool] = True

    def __init__(self, config: FinetuneConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.backbone, self.classifier = build_linear_network(config.backbone, context.num_channels)
        self.num_old_classes = 0

    def begin_task(self, task: Task, reader: Reader) -> None:
        super().begin_task(task, reader)
        self.num_old_classes = task.num_old_classes

    def loss(self, batch: Batch) -> Terms:
        scores = self.predict(batch.views)  # [B, K]
        first = self.num_old_classes if self.config.softmax_over == "new" else 0
        return {"classify": F.cross_entropy(scores[:, first:], batch.labels - first)}
