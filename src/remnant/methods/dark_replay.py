"""Dark experience replay with labels (DER++): exemplars keep the scores that they were given.

[dark] Buzzega et al., NeurIPS 2020. mammoth is the code of its authors.

A replayed image is to get the scores that the network gave it when it was stored, and its label.
The scores are stored beside the exemplar, four bytes per class, and count against the budget. Not
to be confused with dynamically expandable representation, also called DER: see `expandable`.

Departs from [dark]: the memory is filled at the end of a task, as for all methods here, with scores
of the network as it is then, for images that are not augmented. There, a reservoir is filled while
the network learns, so that scores come from many moments, and images of the current task are
replayed too.
Departs from [dark]: the classifier grows, so that scores are stored and held for the classes seen
when an image was stored. There, it has all outputs from the start.
Departs from [dark]: one pass over new and replayed images, which share batch statistics. There,
each of the three batches has a pass of its own.
Departs from [dark]: with several processes, or gradients accumulated, a mean over some rows of a
batch is the mean of those of its parts, by their sizes.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from remnant.images import ImageSet, Task
from remnant.memory import Memory
from remnant.methods.backbones import BackboneConfig, build_linear_network
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.phases import Batch, Reader, Terms

_SCORE = np.dtype("<f4")  # of one class, the same bytes on every machine


class DarkReplayConfig(MethodConfig):
    name: Literal["derpp"] = "derpp"
    backbone: BackboneConfig = BackboneConfig()
    # Of mammoth on CIFAR-100; later settings there have 0.3 for the first.
    score_weight: float = Field(default=0.1, ge=0)  # alpha
    label_weight: float = Field(default=0.5, ge=0)  # beta


class DarkReplay(Method[DarkReplayConfig]):
    Config = DarkReplayConfig
    corrects_prior: ClassVar[bool] = True

    def __init__(self, config: DarkReplayConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.backbone, self.classifier = build_linear_network(config.backbone, context.num_channels)
        if self.memory is not None:
            num_classes = sum(context.task_sizes)
            self.memory.require_room(num_classes, self.side_bytes(num_classes))
        self.stored = torch.empty(0, 0)  # scores of the exemplars; read from the memory

    def begin_task(self, task: Task, reader: Reader) -> None:
        super().begin_task(task, reader)
        if self.memory is not None:
            self.stored = stored_scores(self.memory, task.num_seen_classes)  # [N, K]

    def loss(self, batch: Batch) -> Terms:
        scores = self.predict(batch.views)  # [B, K]
        to_scores, to_labels = split_replayed(batch.is_replay)
        losses = F.cross_entropy(batch.corrected(scores), batch.labels, reduction="none")  # [B]
        terms = {"classify": mean_of(losses, ~batch.is_replay)}
        if len(self.stored) > 0:
            stored = self.stored[batch.ids[to_scores.cpu()]].to(scores.device)  # [B', K]
            match = stored_score_loss(scores[to_scores].float(), stored)
            terms["match"] = self.config.score_weight * match
            terms["replay"] = self.config.label_weight * mean_of(losses, to_labels)
        return terms

    @classmethod
    def side_bytes(cls, num_seen_classes: int) -> int:
        return _SCORE.itemsize * num_seen_classes

    def side_data(self, images: ImageSet, reader: Reader) -> list[bytes]:
        """The scores of each image over the classes seen."""
        scores = reader.apply(self.predict, images).numpy().astype(_SCORE)
        return [row.tobytes() for row in scores]


def stored_scores(memory: Memory, num_classes: int) -> Tensor:
    """Scores of all exemplars in replay order, [N, K]; NaN for classes that were unknown then."""
    rows = [np.frombuffer(side, _SCORE) for side in memory.sides()]
    scores = np.full((len(rows), num_classes), np.nan, dtype=np.float32)
    for place, row in enumerate(rows):
        scores[place, : len(row)] = row
    return torch.from_numpy(scores)


def split_replayed(is_replay: Tensor) -> tuple[Tensor, Tensor]:
    """Two halves of the replayed rows, bool [B] each: for scores, and for labels.

    Rows take turns; they come in random order, so that the halves are two independent draws.
    """
    is_odd = is_replay.cumsum(dim=0) % 2 == 1
    return is_replay & is_odd, is_replay & ~is_odd


def stored_score_loss(scores: Tensor, stored: Tensor) -> Tensor:
    """Mean squared difference over the entries [B, K] that were stored, those not NaN [dark]."""
    is_stored = ~stored.isnan()
    return mean_of((scores - stored.nan_to_num()).square(), is_stored)


def mean_of(values: Tensor, is_counted: Tensor) -> Tensor:
    """The mean of some of the values; 0 where there are none."""
    return values[is_counted].sum() / is_counted.sum().clamp(min=1)
