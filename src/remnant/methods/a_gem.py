"""Averaged gradient episodic memory: no step may raise the mean loss on the memory.

[a-gem] Chaudhry et al., ICLR 2019. [gem] Lopez-Paz and Ranzato, NeurIPS 2017.

The network learns from new images alone. Where its gradient would raise the mean loss on replayed
images, the part that would is taken out of it: one constraint in place of one per task.

Departs from mammoth: the memory holds a share of every task; there, one batch of each.
Departs from [a-gem]: by default a label competes with all classes seen (mammoth); there, with those
of its task alone, which is told.
Departs from [a-gem]: each task has the same number of epochs as for all methods here; there, one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from torch import Tensor

from remnant.images import Task
from remnant.methods.backbones import BackboneConfig, build_linear_network
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.constrained import constrained, cross_entropy_of, project_by_one
from remnant.methods.local_softmax import require_rivals
from remnant.phases import Batch, Phase, Reader, Terms


class AGEMConfig(MethodConfig):
    name: Literal["a-gem"] = "a-gem"
    backbone: BackboneConfig = BackboneConfig()
    # "seen": a label competes with all classes seen (mammoth); "task": with those of its task
    # alone, as in [a-gem], which is told the task
    softmax_over: Literal["task", "seen"] = "seen"

    def check_task(self, index: int, num_new_classes: int) -> None:
        if self.softmax_over == "task":
            require_rivals(index, num_new_classes)


class AGEM(Method[AGEMConfig]):
    Config = AGEMConfig

    def __init__(self, config: AGEMConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.backbone, self.classifier = build_linear_network(config.backbone, context.num_channels)
        # A process may have no exemplar of an earlier task in its part of a batch.
        self.may_skip_passes = True
        self.starts: list[int] = []  # the first label of every task so far

    def grow(self, task: Task) -> None:
        super().grow(task)
        self.starts.append(task.num_old_classes)

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        losses = {"memory": self.memory_loss} if task.index > 0 else {}
        for phase in super().phases(task, reader):
            yield constrained(phase, losses, _project)

    def loss(self, batch: Batch) -> Terms:
        return {"classify": self._cross_entropy(batch, ~batch.is_replay)}

    def memory_loss(self, batch: Batch) -> Terms:
        """Loss of all replayed images of the batch together."""
        return {"memory": self._cross_entropy(batch, batch.is_replay)}

    def _cross_entropy(self, batch: Batch, is_counted: Tensor) -> Tensor:
        starts = self.starts if self.config.softmax_over == "task" else None
        idle = self.classifier.weight
        return cross_entropy_of(self.predict, batch, is_counted, starts=starts, idle=idle)


def _project(gradient: Tensor, references: Tensor) -> Tensor:
    return project_by_one(gradient, references[0])
