"""Dynamically expandable representation: extractors that learn which of their channels they need.

[der] Yan et al., CVPR 2021. [hat] Serra et al., ICML 2018.

As `expandable`, but the channels of the newest extractor have gates, which harden within every
epoch and are pushed to close. When the extractor has learned, closed channels are removed for good.

Chosen: the code of the masks was never released, so their numbers are settings, after [hat].
Chosen: batch statistics are measured again on test views once channels are removed.
Departs from [hat]: gates learn by the same optimiser as the weights, momentum included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from remnant.errors import InputError
from remnant.images import ImageSet, Task
from remnant.methods.backbones import BackboneConfig, residual_builder
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.expansion import TUNING, classify, restarting, tune
from remnant.models.expandable_network import ExpandableNetwork
from remnant.models.gates import ChannelGates, annealed_scale
from remnant.phases import Batch, Phase, Reader, Schedule, Terms

_STATISTICS_BATCH = 256
_STATISTICS_IMAGES = 8192  # Chosen: ample for a mean and a variance; all of ImageNet takes hours


class ExpandablePrunedConfig(MethodConfig):
    """Defaults are those of [der] on CIFAR-100, as far as it gives them."""

    name: Literal["expandable-pruned"] = "expandable-pruned"
    backbone: BackboneConfig = BackboneConfig(name="resnet18")  # of every extractor, uncut
    # Weights of a new extractor. Chosen: "previous" puts the weights of the cut one to the channels
    # that they had, so that nothing but the network itself is kept from task to task.
    start_from: Literal["previous", "random"] = "previous"
    auxiliary_weight: float = Field(default=1.0, ge=0)  # lambda_a
    # lambda_s. Chosen: the value of [hat]; [der] tuned it in every setting to meet a size.
    sparsity_weight: float = Field(default=0.75, ge=0)
    max_scale: float = Field(default=400.0, ge=1)  # s_max. Chosen: the value of [hat]
    largest_start: float = Field(default=1.0, gt=0, le=6)  # of the logits of gates
    balanced_tuning: Schedule | None = TUNING  # of the classifier, after later tasks
    tuning_temperature: float = Field(default=5.0, gt=0)  # delta; 1 on ImageNet

    @field_validator("first", "later")
    @classmethod
    def _check_optimizer(cls, schedule: Schedule | None) -> Schedule | None:
        if schedule is not None and schedule.optimizer.name != "sgd":
            raise InputError(
                "the gates of expandable-pruned learn by gradients whose size matters, so "
                f"optimizer.name must be sgd; got {schedule.optimizer.name}."
            )
        return schedule


class ExpandablePruned(Method[ExpandablePrunedConfig]):
    Config = ExpandablePrunedConfig
    corrects_prior: ClassVar[bool] = True
    cuts_network: ClassVar[bool] = True

    def __init__(self, config: ExpandablePrunedConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        build = residual_builder(config.backbone, context.num_channels)
        self.network = ExpandableNetwork(build)
        self.gates: ChannelGates | None = None  # of the newest extractor, until it is cut
        self._num_epochs = 1  # of the current task

    def grow(self, task: Task) -> None:
        self.network.grow(task.num_new_classes)

    def begin_task(self, task: Task, reader: Reader) -> None:
        self.grow(task)
        network, config = self.network, self.config
        if config.start_from == "previous":
            network.start_from_previous()
        if task.index > 0:
            network.add_auxiliary(task.num_new_classes, reader.generator("auxiliary", task.index))
        self.gates = ChannelGates(
            network.newest.group_sizes,
            config.max_scale,
            config.largest_start,
            reader.generator("gates", task.index),
        )
        self._num_epochs = config.schedule(task).epochs

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        network, config, replay = self.network, self.config, self.replay()
        rng = reader.generator("heads", task.index)
        yield from restarting(self._train(task, replay), partial(network.restart_heads, rng))
        assert self.gates is not None, "gates come with the task"
        network.cut_newest(self.gates.is_open())
        network.auxiliary, self.gates = None, None
        # The gates were soft for much of every epoch, which moved the statistics.
        seen = [task.train] if replay is None else [task.train, replay]
        measure_statistics(network.newest, seen, reader)
        yield from tune(
            self, network, task, reader, config.balanced_tuning, config.tuning_temperature
        )

    def _train(self, task: Task, replay: ImageSet | None) -> Phase:
        assert self.gates is not None, "gates come with the task"
        schedule, moving = self.config.schedule(task), self.network.moving()
        phase = self.phase(
            "train",
            task.train,
            schedule,
            replay=replay,
            parameters=[*moving, self.gates.logits],
            on_gradients=partial(self._exempt_gates, schedule),
        )
        (player,) = phase.players
        return replace(phase, players=(replace(player, after_step=self.gates.clamp),))

    def _exempt_gates(self, schedule: Schedule) -> None:
        """Take back the weight decay that the optimiser is about to add to the gates' gradient."""
        optimizer = schedule.optimizer
        if self.gates is None or self.gates.logits.grad is None:
            return
        if optimizer.decay_norms_and_biases:
            self.gates.logits.grad -= optimizer.weight_decay * self.gates.logits.detach()

    def loss(self, batch: Batch) -> Terms:
        network, config, gates = self.network, self.config, self._gates(batch)
        features = network.features(batch.views, gates)
        terms = classify(network, features, batch, config.auxiliary_weight)
        if gates is not None:
            terms["sparsity"] = config.sparsity_weight * network.newest.used_ratio(gates)
        return terms

    def _gates(self, batch: Batch) -> Tensor | None:
        if self.gates is None:
            return None
        steps_per_epoch = batch.num_steps // self._num_epochs
        scale = annealed_scale(batch.step, steps_per_epoch, self.config.max_scale)
        return self.gates.soft(scale)

    def predict(self, views: Tensor) -> Tensor:
        return self.network.classifier(self.features(views))

    def features(self, views: Tensor) -> Tensor:
        """With gates either open or closed, as they will be cut."""
        gates = None if self.gates is None else self.gates.is_open().to(views)
        return self.network.features(views, gates)


@torch.no_grad()
def measure_statistics(network: nn.Module, sets: Sequence[ImageSet], reader: Reader) -> None:
    """Recompute the batch statistics of a network, over images of all sets mixed.

    Every process reads the same images, and so gets the same numbers.
    """
    norms = [
        part for part in network.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)
    ]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean over the batches
    network.train()
    total = sum(len(one) for one in sets)
    order = torch.randperm(total, generator=reader.generator("statistics"))[:_STATISTICS_IMAGES]
    for places in order.tensor_split(-(-len(order) // _STATISTICS_BATCH)):
        network(reader.views(_read(sets, places)))
    network.eval()
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum


def _read(sets: Sequence[ImageSet], places: Tensor) -> Tensor:
    """Images uint8 [n, H, W, C] at places counted through all sets."""
    found, first = [], 0
    for one in sets:
        inside = places[(places >= first) & (places < first + len(one))] - first
        if len(inside):
            found.append(one.images.read(inside))
        first += len(one)
    return torch.cat(found)
