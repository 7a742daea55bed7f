"""PODNet: distil pooled maps of every stage; classify by several proxies per class.

[podnet] Douillard et al., ECCV 2020.

The network may change as long as sums of its maps along each side stay as they were (POD-spatial)
and its feature keeps its direction (POD-flat). A class has several proxies, which start as the
clusters of its features; old ones are frozen while the network learns, and all of them are tuned
on the balanced memory at the end of a task.

Departs from [podnet]: every residual sum but the last passes a ReLU; the released thin network has
none after any sum. What is distilled is the sum before it, as published.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from remnant.errors import InputError
from remnant.images import Task
from remnant.losses import direction_loss, nca_loss, pod_spatial_loss
from remnant.memory.keeps import Keeps
from remnant.methods.backbones import Backbone, BackboneConfig, build_backbone
from remnant.methods.balanced_tuning import train_and_tune
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.nearest_mean import NearestMean, fill_from_memory, unused_head
from remnant.methods.teacher import Frozen, frozen_copy
from remnant.models.cosine import ProxyClassifier
from remnant.phases import Batch, OptimizerConfig, Phase, Reader, Schedule, Terms

# [podnet] released, on CIFAR-100.
TUNING = Schedule(
    epochs=20, batch_size=128, optimizer=OptimizerConfig(lr=0.05, weight_decay=5e-4, clip_value=5)
)


class PODNetConfig(MethodConfig):
    """Defaults are those of [podnet] on CIFAR-100."""

    name: Literal["podnet"] = "podnet"
    backbone: BackboneConfig = BackboneConfig(has_last_relu=False)
    num_proxies: int = Field(default=10, ge=1)  # of each class
    margin: float = Field(default=0.6, ge=0)  # delta; without effect in the released form
    # The published numbers come from "released"; see `losses.nca_loss`.
    nca: Literal["paper", "released"] = "released"
    # Both times sqrt(seen classes / new classes); 8 and 10 on ImageNet. For nearest means the
    # paper has a spatial weight of 5.
    spatial_weight: float = Field(default=3.0, ge=0)
    flat_weight: float = Field(default=1.0, ge=0)
    balanced_tuning: Schedule | None = TUNING  # of all proxies on the memory, after later tasks
    prediction: Literal["scores", "nearest-mean"] = "scores"
    mirror_exemplars: bool = True  # class means include mirror images


class PODNet(Method[PODNetConfig]):
    Config = PODNetConfig

    def __init__(self, config: PODNetConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.network = build_backbone(config.backbone, context.num_channels)
        self.proxies = ProxyClassifier(self.network.width, config.num_proxies)
        self.nearest_mean = NearestMean(self.network.width)
        self.teacher: Frozen[Backbone] | None = None
        if config.nca == "paper" and context.task_sizes[0] < 3:
            raise InputError(
                'with method.nca="paper" and two classes a scale of 0 costs nothing, so nothing is '
                "learned; the first task must bring 3 classes, but brings "
                f'{context.task_sizes[0]}. Use method.nca="released", or a larger first task.'
            )

    def grow(self, task: Task) -> None:
        self.proxies.grow(task.num_new_classes)
        self.nearest_mean.grow(task.num_new_classes)

    def begin_task(self, task: Task, reader: Reader) -> None:
        self.teacher = frozen_copy(self.network) if task.index > 0 else None
        self.grow(task)
        if task.index > 0:
            self.proxies.imprint(self._cluster(task, reader))

    def _cluster(self, task: Task, reader: Reader) -> Tensor:
        """Centres of the features of each new class: [K, P, D]."""
        units = F.normalize(reader.apply(self.features, task.train))
        centres = [
            cluster_centres(
                units[task.train.labels == label],
                self.config.num_proxies,
                reader.generator("proxies", label),
            )
            for label in task.new_labels
        ]
        return torch.stack(centres)

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        tuning = self.config.balanced_tuning
        return train_and_tune(self, task, reader, self.network, self.proxies, tuning, self._tune)

    def loss(self, batch: Batch) -> Terms:
        if self.teacher is None:
            return {"classify": self._classify(self.features(batch.views), batch.labels)}
        features, sums = self.network.with_sums(batch.views)
        with torch.no_grad():
            old_features, old_sums = self.teacher.network.with_sums(batch.views)
        num_seen, num_new = self.proxies.num_classes, len(self.proxies.new)
        factor = math.sqrt(num_seen / num_new)
        spatial = pod_spatial_loss(distilled_maps(sums), distilled_maps(old_sums))
        return {
            "classify": self._classify(features, batch.labels),
            "spatial": factor * self.config.spatial_weight * spatial,
            "flat": factor * self.config.flat_weight * direction_loss(features, old_features),
        }

    def _classify(self, features: Tensor, labels: Tensor) -> Tensor:
        similarities = self.proxies.similarities(features)  # [B, K]
        scale, config = self.proxies.scale, self.config
        return nca_loss(similarities, labels, scale, config.margin, config.nca)

    def _tune(self, batch: Batch) -> Terms:
        """The loss without its distillation, which does not depend on the proxies.

        As in the released code, the network uses and updates batch statistics meanwhile.
        """
        with torch.no_grad():
            features = self.features(batch.views)
        return {"classify": self._classify(features, batch.labels)}

    def predict(self, views: Tensor) -> Tensor:
        is_by_means = self.config.prediction == "nearest-mean"
        head = self.nearest_mean if is_by_means else self.proxies
        return head(self.features(views))

    def features(self, views: Tensor) -> Tensor:
        return self.network(views)

    def end_task(self, task: Task, reader: Reader) -> None:
        """The memory was filled after the first phase; the means come after the last."""
        is_mirrored = self.config.mirror_exemplars
        fill_from_memory(self.nearest_mean, self, reader, is_mirrored=is_mirrored)

    def kept(self) -> list[Keeps]:
        unused = unused_head(self.config.prediction, self.proxies, self.nearest_mean)
        return [*super().kept(), unused]


def distilled_maps(sums: list[list[Tensor]]) -> list[Tensor]:
    """The sums that end each stage; of three stages also the last but one, which makes four."""
    maps = [stage[-1] for stage in sums]
    if len(sums) == 3 and len(sums[-1]) > 1:
        maps.insert(-1, sums[-1][-2])
    return maps


def cluster_centres(units: Tensor, num_clusters: int, generator: torch.Generator) -> Tensor:
    """Centres of k-means over unit features [N, D]: [P, D].

    Chosen: with fewer different features than clusters, centres are repeated in turn.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    points = units.double().numpy()
    num_found = min(num_clusters, len(np.unique(points, axis=0)))
    seed = int(torch.randint(2**31, (), generator=generator))
    # Ten starts, as scikit-learn had by default when [podnet] was published.
    clusters = KMeans(num_found, n_init=10, random_state=seed)  # pyright: ignore[reportArgumentType]
    with threadpool_limits(limits=1):  # sums in one order, so the same on every machine
        centres = clusters.fit(points).cluster_centers_
    turns = torch.arange(num_clusters) % num_found
    return torch.from_numpy(centres)[turns].to(units)
