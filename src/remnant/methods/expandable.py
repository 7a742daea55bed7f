"""Dynamically expandable representation without pruning: one more extractor for every task.

[der] Yan et al., CVPR 2021.

A task adds an extractor and freezes all earlier ones; a new classifier of all their features is
learned. An auxiliary classifier sees the newest features alone, so that these separate the new
classes from one another and from all old ones. At the end the classifier is learned once more, on
the same number of images of every class, with everything else frozen.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from remnant.images import Task
from remnant.methods.backbones import BackboneConfig, residual_builder
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.expansion import TUNING, classify, restarting, tune
from remnant.models.expandable_network import ExpandableNetwork
from remnant.phases import Batch, Phase, Reader, Schedule, Terms


class ExpandableConfig(MethodConfig):
    """Defaults are those of [der] on CIFAR-100.

    The heads restart where the warm-up of the learning rate ends.
    """

    name: Literal["expandable"] = "expandable"
    backbone: BackboneConfig = BackboneConfig(name="resnet18")  # of every extractor
    start_from: Literal["previous", "random"] = "previous"  # weights of a new extractor
    auxiliary_weight: float = Field(default=1.0, ge=0)  # lambda_a
    balanced_tuning: Schedule | None = TUNING  # of the classifier, after later tasks
    tuning_temperature: float = Field(default=5.0, gt=0)  # delta; 1 on ImageNet


class Expandable(Method[ExpandableConfig]):
    Config = ExpandableConfig
    corrects_prior: ClassVar[bool] = True

    def __init__(self, config: ExpandableConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        build = residual_builder(config.backbone, context.num_channels)
        self.network = ExpandableNetwork(build)

    def grow(self, task: Task) -> None:
        self.network.grow(task.num_new_classes)

    def begin_task(self, task: Task, reader: Reader) -> None:
        self.grow(task)
        if self.config.start_from == "previous":
            self.network.start_from_previous()
        if task.index > 0:
            rng = reader.generator("auxiliary", task.index)
            self.network.add_auxiliary(task.num_new_classes, rng)

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        network, config = self.network, self.config
        schedule, moving = config.schedule(task), network.moving()
        phase = self.phase("train", task.train, schedule, replay=self.replay(), parameters=moving)
        rng = reader.generator("heads", task.index)
        yield from restarting(phase, partial(network.restart_heads, rng))
        network.auxiliary = None
        yield from tune(
            self, network, task, reader, config.balanced_tuning, config.tuning_temperature
        )

    def loss(self, batch: Batch) -> Terms:
        features = self.network.features(batch.views)
        return classify(self.network, features, batch, self.config.auxiliary_weight)

    def predict(self, views: Tensor) -> Tensor:
        return self.network(views)

    def features(self, views: Tensor) -> Tensor:
        return self.network.features(views)
