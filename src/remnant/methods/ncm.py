"""Nearest class mean on a frozen encoder: one mean per class, and nothing that can forget.

[ncm] Mensink et al., PAMI 2013; as a baseline of class-incremental learning with pretrained
networks, Janson et al., 2022.

The sums are whole numbers, so that any order of updates gives the same means, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from remnant.encoders import FrozenEncoder
from remnant.images import ImageSet, Task
from remnant.memory import select
from remnant.methods.base import Method, MethodContext
from remnant.methods.frozen_features import FrozenConfig, TaskCodes, load_encoder
from remnant.models.classifier import append_rows
from remnant.phases import Batch, Phase, Reader, Terms


class NCMConfig(FrozenConfig):
    name: Literal["ncm"] = "ncm"
    # Chosen: a cosine is divided by this before a softmax; the order of classes does not change.
    temperature: float = Field(default=0.05, gt=0)


class NCM(Method[NCMConfig]):
    """Encoder, codes, sums of codes."""

    Config = NCMConfig
    trains = False
    takes_known_classes = True
    has_one_row_per_class = True
    forgets_exactly = True
    sums: Tensor

    def __init__(self, config: NCMConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.encoder = FrozenEncoder(config.encoder)
        # int64 [K, D]; their lengths do not matter, so that no count is needed.
        self.register_buffer("sums", torch.zeros(0, self.encoder.width, dtype=torch.int64))
        self._codes: TaskCodes | None = None  # during `end_task` alone

    def begin_task(self, task: Task, reader: Reader) -> None:
        load_encoder(self.encoder, task, reader)
        super().begin_task(task, reader)

    def grow(self, task: Task) -> None:
        rows = self.sums.new_zeros(task.num_new_classes, self.sums.shape[1])
        self.sums = append_rows(self.sums, rows)

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        return iter(())

    def loss(self, batch: Batch) -> Terms:
        raise AssertionError("ncm has no phase, so no loss is ever asked for")

    def features(self, views: Tensor) -> Tensor:
        return self.encoder(views)

    def predict(self, views: Tensor) -> Tensor:
        """Cosines to the means, divided by the temperature."""
        codes = functional.normalize(self.features(views), dim=1)
        means = functional.normalize(self.sums.double(), dim=1).float()
        return codes @ means.T / self.config.temperature

    def end_task(self, task: Task, reader: Reader) -> None:
        self._codes = TaskCodes(self.encoder, task, reader)
        for label in (*task.new_labels, *task.known_labels):
            self.sums[label] += self._codes.of_class(label).sum(dim=0).to(self.sums.device)
        self.remember(task, reader)
        self._codes = None

    def forget_class(self, label: int) -> None:
        is_kept = torch.arange(len(self.sums), device=self.sums.device) != label
        self.sums = self.sums[is_kept]

    def rank_exemplars(self, images: ImageSet, label: int, count: int, reader: Reader) -> Tensor:
        assert self._codes is not None, "exemplars are chosen at the end of a task"
        assert self.memory is not None, "only a method with a memory ranks exemplars"
        codes = self._codes.of_class(label).float()
        return select(
            self.memory.config.selection, codes, count, reader.generator("selection", label)
        )
