"""Parts of methods with one extractor per task: restarted heads and balanced tuning.

[der] Yan et al., CVPR 2021; numbers are those of its released code.

Departs from [der]: momentum restarts with the heads, since they begin another phase.
Departs from [der]: the warm-up moves at every step; released, once per epoch.
Departs from [der]: heads are always drawn as `nn.Linear` draws; released, the first draw is normal.
Departs from [der]: the last norm of a residual branch starts at 1 as the others do; released, at 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from remnant.images import ImageSet, Task
from remnant.methods.base import Method
from remnant.models.expandable_network import ExpandableNetwork
from remnant.phases import Batch, OptimizerConfig, Phase, Reader, Schedule, Terms

# [der] on CIFAR-100.
TUNING = Schedule(
    epochs=30,
    batch_size=128,
    optimizer=OptimizerConfig(lr=0.1, weight_decay=5e-4, schedule="steps", milestones=(15,)),
)


def restarting(phase: Phase, restart: Callable[[], None]) -> Iterator[Phase]:
    """A phase in two parts with a restart where the warm-up of its learning rate ends, if any."""
    warmup, epochs = math.ceil(phase.schedule.optimizer.warmup_epochs), phase.schedule.epochs
    if not 0 < warmup < epochs:
        yield phase
        return
    yield replace(phase, name="warm-up", epochs=(0, warmup))
    restart()
    yield replace(phase, epochs=(warmup, epochs))


def classify(
    network: ExpandableNetwork, features: Tensor, batch: Batch, auxiliary_weight: float
) -> Terms:
    """Cross-entropy of all classes, and of the newest features, to which old classes are one."""
    labels, scores = batch.labels, batch.corrected(network.classifier(features))
    terms = {"classify": F.cross_entropy(scores, labels)}
    if network.auxiliary is not None:
        num_new = network.auxiliary.num_classes - 1
        num_old = network.classifier.num_classes - num_new
        scores = network.auxiliary(features[:, -network.newest.width :])  # [B, 1 + K_new]
        targets = (labels - num_old + 1).clamp(min=0)  # [der] 0: any old class
        terms["auxiliary"] = auxiliary_weight * F.cross_entropy(scores, targets)
    return terms


def tune(
    method: Method[Any],
    network: ExpandableNetwork,
    task: Task,
    reader: Reader,
    schedule: Schedule | None,
    temperature: float,
) -> Iterator[Phase]:
    """The phase that retrains the classifier on the same number of images of every class [der].

    Everything else is frozen, batch statistics included. There is none in the first task.
    """
    exemplars = method.replay()
    if schedule is None or exemplars is None or task.index == 0:
        return
    network.newest.freeze()
    network.restart_heads(reader.generator("tuned classifier", task.index))

    def loss(batch: Batch) -> Terms:
        with torch.no_grad():
            features = network.features(batch.views)
        scores = network.classifier(features) / temperature
        return {"classify": F.cross_entropy(scores, batch.labels)}

    rng = reader.generator("balanced subset", task.index)
    new, old = equal_classes(task.train, exemplars, rng)
    parameters = network.classifier.parameters()
    yield method.phase("tune", new, schedule, replay=old, parameters=parameters, loss=loss)


def equal_classes(
    new: ImageSet, exemplars: ImageSet, generator: torch.Generator
) -> tuple[ImageSet, ImageSet]:
    """As many random images of every class as the smallest one has."""
    sets = (new, exemplars)
    smallest = min(int(one.labels.unique(return_counts=True)[1].min()) for one in sets)
    balanced: list[ImageSet] = []
    for one in sets:
        positions = []
        for label in one.labels.unique().tolist():
            places = torch.nonzero(one.labels == label).flatten()
            positions.append(places[torch.randperm(len(places), generator=generator)[:smallest]])
        balanced.append(one.select(torch.cat(positions)))
    return balanced[0], balanced[1]
