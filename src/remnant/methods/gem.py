"""Gradient episodic memory: no step may raise the loss on the memory of any earlier task.

[gem] Lopez-Paz and Ranzato, NeurIPS 2017. The class-incremental form is PyCIL's.

The network learns from new images alone. Where its gradient would raise the loss on some earlier
task's exemplars, the nearest gradient that raises none is taken: a quadratic program with one
unknown per task, see `constrained.project_by_all`. Every step takes one more pass forward and back
for each earlier task, though only over that task's rows of the batch.

Departs from [gem]: each task has the same number of epochs as for all methods here; there, one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Literal

from pydantic import Field
from torch import Tensor

from remnant.images import Task
from remnant.methods.backbones import BackboneConfig, build_linear_network
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.constrained import constrained, cross_entropy_of, project_by_all, tasks_of
from remnant.methods.local_softmax import require_rivals
from remnant.phases import Batch, Phase, Reader, Terms


class GEMConfig(MethodConfig):
    name: Literal["gem"] = "gem"
    backbone: BackboneConfig = BackboneConfig()
    # "task": a label competes with those of its task alone ([gem], PyCIL), so that old and new
    # scores never meet; "seen": with all classes seen (mammoth)
    softmax_over: Literal["task", "seen"] = "task"
    # The least weight of every task's gradient in one that is corrected: 0.5 in the release of
    # [gem] and in mammoth, 0 in PyCIL
    margin: float = Field(default=0.5, ge=0)

    def check_task(self, index: int, num_new_classes: int) -> None:
        if self.softmax_over == "task":
            require_rivals(index, num_new_classes)


class GEM(Method[GEMConfig]):
    Config = GEMConfig

    def __init__(self, config: GEMConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.backbone, self.classifier = build_linear_network(config.backbone, context.num_channels)
        # A process may have no exemplar of an earlier task in its part of a batch.
        self.may_skip_passes = True
        self.starts: list[int] = []  # the first label of every task so far

    def grow(self, task: Task) -> None:
        super().grow(task)
        self.starts.append(task.num_old_classes)

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        losses = {
            f"memory {index}": partial(self.memory_loss, index) for index in range(task.index)
        }
        project = partial(project_by_all, margin=self.config.margin)
        for phase in super().phases(task, reader):
            yield constrained(phase, losses, project)

    def loss(self, batch: Batch) -> Terms:
        return {"classify": self._cross_entropy(batch, ~batch.is_replay)}

    def memory_loss(self, index: int, batch: Batch) -> Terms:
        """Loss of the exemplars of one earlier task."""
        is_counted = batch.is_replay & (tasks_of(batch.labels, self.starts) == index)
        return {f"memory {index}": self._cross_entropy(batch, is_counted)}

    def _cross_entropy(self, batch: Batch, is_counted: Tensor) -> Tensor:
        starts = self.starts if self.config.softmax_over == "task" else None
        idle = self.classifier.weight
        return cross_entropy_of(self.predict, batch, is_counted, starts=starts, idle=idle)
