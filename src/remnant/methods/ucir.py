"""UCIR: old and new classes rebalanced by a cosine classifier.

[ucir] Hou et al., CVPR 2019.

Scores are scaled cosines, so that no class wins by the length of its vector; features keep the
direction that the network of the task before gave them (less-forget); images of old classes must
lead the likeliest new classes by a margin. New vectors start as the mean directions of their
classes, old ones no longer move.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from remnant.images import Task
from remnant.losses import direction_loss, margin_ranking_loss
from remnant.memory.keeps import Keeps
from remnant.methods.backbones import BackboneConfig, build_backbone
from remnant.methods.balanced_tuning import train_and_tune
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.nearest_mean import NearestMean, fill_from_memory, unused_head
from remnant.methods.teacher import Frozen, frozen_copy
from remnant.models.cosine import CosineClassifier
from remnant.phases import Batch, Phase, Reader, Schedule, Terms


class UCIRConfig(MethodConfig):
    """Defaults are those of [ucir] on CIFAR-100."""

    name: Literal["ucir"] = "ucir"
    backbone: BackboneConfig = BackboneConfig(shortcut="project", has_last_relu=False)
    # lambda_base, times sqrt(old classes / new classes); 10 on ImageNet
    less_forget_weight: float = Field(default=5.0, ge=0)
    rank_weight: float = Field(default=1.0, ge=0)  # of the margin ranking loss
    margin: float = Field(default=0.5, ge=0)  # between an old class and its rivals
    # Chosen: where a task brings fewer classes than this K, all of them are rivals.
    num_rivals: int = Field(default=2, ge=1)
    # Of all class vectors on the memory after each later task; on for ImageNet-Full alone.
    balanced_tuning: Schedule | None = None
    prediction: Literal["scores", "nearest-mean"] = "scores"
    mirror_exemplars: bool = True  # class means include mirror images


class UCIR(Method[UCIRConfig]):
    Config = UCIRConfig
    corrects_prior: ClassVar[bool] = True

    def __init__(self, config: UCIRConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        backbone = build_backbone(config.backbone, context.num_channels)
        self.backbone = backbone
        self.cosine = CosineClassifier(backbone.width)
        self.nearest_mean = NearestMean(backbone.width)
        self.teacher: Frozen[nn.Module] | None = None  # views -> features

    def grow(self, task: Task) -> None:
        self.cosine.grow(task.num_new_classes)
        self.nearest_mean.grow(task.num_new_classes)

    def begin_task(self, task: Task, reader: Reader) -> None:
        self.teacher = frozen_copy(self.backbone) if task.index > 0 else None
        self.grow(task)
        if task.index > 0:
            features = reader.apply(self.features, task.train)
            self.cosine.imprint(mean_directions(features, task.train.labels, task.new_labels))

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        tuning = self.config.balanced_tuning
        return train_and_tune(self, task, reader, self.backbone, self.cosine, tuning, self._tune)

    def loss(self, batch: Batch) -> Terms:
        features = self.features(batch.views)
        cosines = self.cosine.similarities(features)  # [B, K]
        scores = batch.corrected(self.cosine.scale * cosines)
        terms = {"classify": F.cross_entropy(scores, batch.labels)}
        if self.teacher is None:
            return terms
        config, num_old, num_new = self.config, len(self.cosine.old), len(self.cosine.new)
        weight = config.less_forget_weight * math.sqrt(num_old / num_new)
        terms["less_forget"] = weight * direction_loss(features, self.teacher(batch.views))
        terms["rank"] = config.rank_weight * margin_ranking_loss(
            cosines, batch.labels, num_old, config.margin, config.num_rivals
        )
        return terms

    def _tune(self, batch: Batch) -> Terms:
        self.backbone.eval()  # batch statistics are frozen like the weights
        return self.loss(batch)

    def predict(self, views: Tensor) -> Tensor:
        is_by_means = self.config.prediction == "nearest-mean"
        head = self.nearest_mean if is_by_means else self.cosine
        return head(self.features(views))

    def end_task(self, task: Task, reader: Reader) -> None:
        """The memory was filled after the first phase; the means come after the last."""
        is_mirrored = self.config.mirror_exemplars
        fill_from_memory(self.nearest_mean, self, reader, is_mirrored=is_mirrored)

    def kept(self) -> list[Keeps]:
        unused = unused_head(self.config.prediction, self.cosine, self.nearest_mean)
        return [*super().kept(), unused]


def mean_directions(features: Tensor, labels: Tensor, classes: range) -> Tensor:
    """For each class, the direction of the mean of its unit features [N, D]: [K, D]."""
    units = F.normalize(features)
    means = [units[labels == label].mean(dim=0) for label in classes]
    return F.normalize(torch.stack(means))
