"""Task-agnostic guided feature expansion (TagFex): an extractor per task, and one for all tasks.

[tagfex] Zheng et al., CVPR 2025; numbers are those of its released code for CIFAR-100.
[der] Yan et al., CVPR 2021, of which this is an extension.

Extractors that learn one task after the other come to see alike. Beside them a guide learns without
labels, by telling two views of an image from those of others, and goes on over all tasks. A new
extractor looks at the guide's maps by attention; what a classifier makes of both is distilled into
the network that predicts. The guide predicts nothing, so that it is kept beside the network.

Chosen: TagFex and not FOSTER (Wang et al., ECCV 2022). Among methods trained from scratch whose
code runs it has the highest Avg known on CIFAR-100 in 10 tasks, 78.5 against 72.9 for FOSTER, and
its code settles every detail.

Departs from [tagfex]: recipes have RandAugment in place of AutoAugment, brightness and Cutout.
Departs from [tagfex]: without pruning, which makes TagFex-P of it.
Departs from [tagfex]: with several processes, or gradients accumulated, the views of an image are
told from those of the same part of a batch.
Departs from [tagfex]: classifiers, projector and predictor are drawn as `nn.Linear` draws them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from remnant.errors import InputError
from remnant.images import Task
from remnant.losses import distillation_loss
from remnant.memory.keeps import Keeps, KeptTensors
from remnant.methods.backbones import BackboneConfig, residual_builder
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.teacher import Frozen, frozen_copy
from remnant.models.classifier import LinearClassifier, align_new_rows
from remnant.models.guided_network import GrowingNetwork, Guide, MergeAttention, last_positions
from remnant.phases import Batch, Phase, Reader, Terms

_VIEWS = 2  # of every image in a batch


class TagFexConfig(MethodConfig):
    """Defaults are those of the release on CIFAR-100; schedules need two views of an image."""

    name: Literal["tagfex"] = "tagfex"
    backbone: BackboneConfig = BackboneConfig(name="resnet18")  # of extractors and guide
    previous_share: float = Field(default=0.95, ge=0, le=1)  # of a new extractor; rest: the guide
    contrast_weight: float = Field(default=1.0, ge=0)  # of the guide's loss on two views
    contrast_temperature: float = Field(default=0.2, gt=0)
    hold_weight: float = Field(default=2.0, ge=0)  # of what the guide knew, within the contrast
    auxiliary_weight: float = Field(default=2.0, ge=0)  # of the newest extractor's classifier
    merge_weight: float = Field(default=1.0, ge=0)  # of the classifier over both maps
    transfer_weight: float = Field(default=1.0, ge=0)  # from that classifier to the extractor
    transfer_temperature: float = Field(default=2.0, gt=0)
    num_heads: int = Field(default=8, ge=1)  # of the attention that merges both maps
    projector_hidden_width: int = Field(default=2048, ge=1)
    projector_width: int = Field(default=1024, ge=1)


class TaskHeads(nn.Module):
    """What helps to learn one task and is dropped at its end."""

    def __init__(self, width: int, num_new_classes: int, num_heads: int) -> None:
        super().__init__()
        self.attention = MergeAttention(width, num_heads)
        self.merged = LinearClassifier(width)  # of both maps: the new classes
        self.merged.grow(num_new_classes)
        self.auxiliary = LinearClassifier(width)  # of new features: all old classes as one, new
        self.auxiliary.grow(num_new_classes + 1)


class TagFex(Method[TagFexConfig]):
    Config = TagFexConfig
    corrects_prior: ClassVar[bool] = True

    def __init__(self, config: TagFexConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        for schedule in (config.first, config.later):
            if schedule is not None and schedule.views_per_image != _VIEWS:
                raise InputError(
                    "tagfex compares two views of every image; views_per_image of its schedules "
                    f"must be 2; got {schedule.views_per_image}."
                )
        build = residual_builder(config.backbone, context.num_channels)
        self.network = GrowingNetwork(build)
        self.guide = Guide(build(), config.projector_hidden_width, config.projector_width)
        if self.guide.network.width % config.num_heads:
            raise InputError(
                f"method.num_heads must divide the {self.guide.network.width} features of the "
                f"backbone; got {config.num_heads}."
            )
        self.heads: TaskHeads | None = None  # from the second task on, while it is learned
        self.teacher: Frozen[Guide] | None = None
        self.num_old_classes = 0

    # -------------------------------------------------------------------------------- the six verbs

    def grow(self, task: Task) -> None:
        self.network.grow(task.num_new_classes)

    def begin_task(self, task: Task, reader: Reader) -> None:
        self.num_old_classes = task.num_old_classes
        self.teacher = frozen_copy(self.guide) if task.index > 0 else None
        self.grow(task)
        if task.index > 0:
            self.network.start_between(self.guide.network, self.config.previous_share)
            width = self.guide.network.width
            self.heads = TaskHeads(width, task.num_new_classes, self.config.num_heads)

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        parts: list[nn.Module] = [self.network.newest, self.network.classifier]
        parts += [self.guide.network, self.guide.projector]
        if self.heads is not None:
            parts += [self.guide.predictor, self.heads]
        moved = [parameter for part in parts for parameter in part.parameters()]
        schedule = self.config.schedule(task)
        yield self.phase("train", task.train, schedule, replay=self.replay(), parameters=moved)

    def loss(self, batch: Batch) -> Terms:
        config, views = self.config, batch.views
        features, positions = self.network.maps(views)  # [B, D], [B, N, W]
        scores = self.network.classifier(features)  # [B, K]
        guide_positions = last_positions(self.guide.network, views)  # [B, N, W]
        guide_features = guide_positions.mean(dim=1)
        embedded = self.guide.projector(guide_features)
        is_pair = pairs(batch)
        temperature = config.contrast_temperature
        classify = F.cross_entropy(batch.corrected(scores), batch.labels)
        contrast = contrastive_loss(embedded, embedded, is_pair, temperature)
        if self.heads is None or self.teacher is None:
            return {"classify": classify, "contrast": config.contrast_weight * contrast}
        held = contrastive_loss(*self._held(views, guide_features), is_pair, temperature)
        old_share = self.num_old_classes / scores.shape[1]
        merged = self.heads.merged(self.heads.attention(positions, guide_positions.detach()))
        targets = (batch.labels - self.num_old_classes + 1).clamp(min=0)  # [der] 0: any old class
        auxiliary = F.cross_entropy(self.heads.auxiliary(positions.mean(dim=1)), targets)
        return {
            "classify": classify,
            "auxiliary": config.auxiliary_weight * auxiliary,
            "contrast": config.contrast_weight * (1 - old_share) * contrast,
            "hold": config.contrast_weight * config.hold_weight * old_share * held,
            **self._transfer(scores, merged, batch.labels, classify),
        }

    def predict(self, views: Tensor) -> Tensor:
        return self.network.classifier(self.features(views))

    def features(self, views: Tensor) -> Tensor:
        return self.network.maps(views)[0]

    def end_task(self, task: Task, reader: Reader) -> None:
        self.heads = self.teacher = None
        self.remember(task, reader)
        if task.index > 0:
            align_new_rows(self.network.classifier, task.num_old_classes)

    def kept(self) -> list[Keeps]:
        return [*super().kept(), KeptTensors.of("guide", self.guide)]

    # --------------------------------------------------------------------------------------- losses

    def _held(self, views: Tensor, guide_features: Tensor) -> tuple[Tensor, Tensor]:
        """What the guide predicts of its former features, and these, both as it embedded then."""
        assert self.teacher is not None, "later tasks have a teacher"
        former = self.teacher.network  # its weights are frozen, but gradients pass through
        with torch.no_grad():
            features = last_positions(former.network, views).mean(dim=1)
            embedded = former.projector(features)
        return former.projector(self.guide.predictor(guide_features)), embedded

    def _transfer(self, scores: Tensor, merged: Tensor, labels: Tensor, classify: Tensor) -> Terms:
        """Learn new classes from both maps; distil them where that is ahead of the network."""
        config, first = self.config, self.num_old_classes
        is_new = labels >= first
        if not bool(is_new.any()):
            nothing = merged.sum() * 0
            return {"merge": nothing, "transfer": nothing}
        merged, new_scores = merged[is_new], scores[is_new, first:]
        merge = F.cross_entropy(merged, labels[is_new] - first)
        transfer = distillation_loss(
            new_scores,
            merged.detach(),
            config.transfer_temperature,
            times_temperature_squared=False,
        )
        is_ahead = (merge < classify).detach().to(transfer)
        return {
            "merge": config.merge_weight * merge,
            "transfer": config.transfer_weight * is_ahead * transfer,
        }


def pairs(batch: Batch) -> Tensor:
    """Which rows are views of one image, bool [B, B]: no row with itself."""
    ids, is_replay = batch.ids.to(batch.labels.device), batch.is_replay
    is_same = (ids[:, None] == ids) & (is_replay[:, None] == is_replay)
    return is_same & ~torch.eye(len(ids), dtype=torch.bool, device=ids.device)


def contrastive_loss(
    anchors: Tensor, others: Tensor, is_pair: Tensor, temperature: float
) -> Tensor:
    """How well an anchor [B, D] finds its pair among the others [B, D], its own row left out.

    The mean is over rows that have a pair; where batches end between two views, some have none.
    """
    units = F.normalize(anchors.float(), dim=1), F.normalize(others.float(), dim=1)
    cosines = units[0] @ units[1].T / temperature  # [B, B]
    is_self = torch.eye(len(cosines), dtype=torch.bool, device=cosines.device)
    rest = cosines.masked_fill(is_self, -torch.inf).logsumexp(dim=1)
    counts = is_pair.sum(dim=1)
    found = (cosines * is_pair).sum(dim=1) / counts.clamp(min=1)
    has_pair = counts > 0
    return (rest - found)[has_pair].sum() / has_pair.sum().clamp(min=1)
