"""Simple-DER: one extractor per task, distillation, and channels pruned by their scale.

[simple] Li et al., *Preserving Earlier Knowledge in Continual Learning with the Help of All
Previous Feature Extractors*, 2021; no code was released. [der] Yan et al., CVPR 2021.

A task adds an extractor beside the frozen ones and learns it with a classifier of all features,
which also has to agree with the network before. Then the channels of the new extractor whose norms
have the smallest scales are removed, and what is left learns to give the features that the whole
one gave.

Chosen: how [simple] weighs its losses, ranks filters and prunes is not known in detail. The form
here is plain: the scales of norms (a norm cancels that of a filter), the same share of every layer,
regression of the features that are left.
Chosen: schedule, restart of the heads and balanced tuning are those of [der].
Chosen: every extractor is pruned when its task ends, the last one too. The published 28.0 M
parameters on ImageNet-Full suggest that the newest was counted whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from remnant.images import Task
from remnant.methods.backbones import BackboneConfig, residual_builder
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.distillation import DistillationConfig, distill
from remnant.methods.expansion import TUNING, restarting, tune
from remnant.methods.teacher import Frozen, frozen_copy
from remnant.models.classifier import LinearClassifier
from remnant.models.expandable_network import ExpandableNetwork
from remnant.models.prunable_resnet import Extractor
from remnant.phases import Batch, OptimizerConfig, Phase, Reader, Schedule, Terms

# Chosen: long enough to recover, at a tenth of the rate that the network was trained with.
COMPRESSION = Schedule(
    epochs=30,
    batch_size=128,
    optimizer=OptimizerConfig(lr=0.01, weight_decay=5e-4, schedule="cosine"),
)


class SimpleExpandableConfig(MethodConfig):
    name: Literal["simple-expandable"] = "simple-expandable"
    backbone: BackboneConfig = BackboneConfig(name="resnet18")  # of every extractor, uncut
    start_from: Literal["previous", "random"] = "previous"  # weights of a new extractor
    distillation: DistillationConfig = DistillationConfig()  # times the share of old classes
    # Of the channels of every group. Chosen: 0.6 leaves a sixth of the weights, which fits the size
    # that [simple] reports.
    cut_ratio: float = Field(default=0.6, ge=0, lt=1)
    compression: Schedule = COMPRESSION  # of what is left
    regression_weight: float = Field(default=1.0, ge=0)  # Chosen: as much as a cross-entropy
    balanced_tuning: Schedule | None = TUNING  # of the classifier, after later tasks
    tuning_temperature: float = Field(default=5.0, gt=0)  # 1 on ImageNet, as in [der]


class SimpleExpandable(Method[SimpleExpandableConfig]):
    Config = SimpleExpandableConfig
    corrects_prior: ClassVar[bool] = True
    cuts_network: ClassVar[bool] = True

    def __init__(self, config: SimpleExpandableConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        build = residual_builder(config.backbone, context.num_channels)
        self.network = ExpandableNetwork(build)
        # The teacher shares the frozen extractors of the student.
        self.teacher: Frozen[LinearClassifier] | None = None
        self.uncut: Frozen[Extractor] | None = None  # the newest extractor, while it is compressed

    def grow(self, task: Task) -> None:
        self.network.grow(task.num_new_classes)

    def begin_task(self, task: Task, reader: Reader) -> None:
        self.teacher = frozen_copy(self.network.classifier) if task.index > 0 else None
        self.grow(task)
        if self.config.start_from == "previous":
            self.network.start_from_previous()

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        network, config, replay = self.network, self.config, self.replay()
        schedule, moving = config.schedule(task), network.moving()
        phase = self.phase("train", task.train, schedule, replay=replay, parameters=moving)
        rng = reader.generator("heads", task.index)
        yield from restarting(phase, partial(network.restart_heads, rng))
        if config.cut_ratio > 0:
            self.uncut = frozen_copy(network.newest)
            network.cut_newest(network.newest.strongest(config.cut_ratio))
            yield self.phase(
                "compress",
                task.train,
                config.compression,
                replay=replay,
                parameters=network.moving(),
                loss=self._compress,
            )
            self.uncut = None
        yield from tune(
            self, network, task, reader, config.balanced_tuning, config.tuning_temperature
        )

    def loss(self, batch: Batch) -> Terms:
        return self._classify(self.network.features(batch.views), batch)

    def _classify(self, features: Tensor, batch: Batch) -> Terms:
        scores = self.network.classifier(features)  # [B, K]
        terms = {"classify": F.cross_entropy(batch.corrected(scores), batch.labels)}
        if self.teacher is not None:
            old = self.teacher(features[:, : self.teacher.network.width].detach())  # [B, K_old]
            old_share = old.shape[1] / scores.shape[1]
            terms["distill"] = old_share * distill(self.config.distillation, scores, old)
        return terms

    def _compress(self, batch: Batch) -> Terms:
        """The loss, and how far features are from those of the uncut extractor."""
        assert self.uncut is not None, "compression follows a cut"
        features, newest = self.network.features(batch.views), self.network.newest
        is_kept = newest.feature_channels(newest.is_kept)
        distance = F.mse_loss(features[:, -newest.width :], self.uncut(batch.views)[:, is_kept])
        terms = self._classify(features, batch)
        return terms | {"regress": self.config.regression_weight * distance}

    def predict(self, views: Tensor) -> Tensor:
        return self.network(views)

    def features(self, views: Tensor) -> Tensor:
        return self.network.features(views)
