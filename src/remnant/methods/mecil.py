"""MECIL: many exemplars of low fidelity, and new images learned in both fidelities.

[mecil] Zhao et al., TNNLS 2021. [icarl] Rebuffi et al., CVPR 2017.

Exemplars are stored small, so that more fit. Each new image is shown beside its low-fidelity twin
under the same crop (duplet learning), so that features of both agree. After each later task the
classifier alone is fitted again to the memory with true labels (classifier adaptation), since in
training the outputs of old classes follow a teacher.

What low fidelity is, the codec of the memory decides; `downscaled` by default in recipes.

Departs from [mecil]: images are down-scaled; the released code for CIFAR-100 keeps 1,024 principal
components, counts them a byte each and does not count their basis.
Departs from [mecil]: a class's share follows from all classes seen; the released code divides by
the old ones alone, which stores more than its budget.
Departs from [mecil]: images are normalised per channel; the released code takes off the mean of
each pixel.
Departs from [mecil]: outputs appear with their classes, as in `icarl`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import nn

from remnant.images import Task
from remnant.losses import sigmoid_losses
from remnant.methods.backbones import BackboneConfig, build_linear_network
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.coded_twins import through_codec
from remnant.methods.teacher import Frozen, make_teacher
from remnant.phases import Batch, Phase, Reader, Schedule, Terms


class MECILConfig(MethodConfig):
    name: Literal["mecil"] = "mecil"
    backbone: BackboneConfig = BackboneConfig(has_last_relu=False)  # [icarl] on CIFAR-100
    average_over: Literal["seen", "stream"] = "seen"  # see `ICaRLConfig`
    adaptation: Schedule | None = None  # of the classifier; None: as the task itself


class MECIL(Method[MECILConfig]):
    Config = MECILConfig
    has_own_views: ClassVar[bool] = True

    def __init__(self, config: MECILConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.backbone, self.classifier = build_linear_network(config.backbone, context.num_channels)
        self.num_averaged = sum(context.task_sizes) if config.average_over == "stream" else None
        self.teacher: Frozen[nn.Sequential] | None = None
        self.herds_coded = True

    def begin_task(self, task: Task, reader: Reader) -> None:
        self.teacher = make_teacher(self.backbone, self.classifier) if task.index > 0 else None
        super().begin_task(task, reader)

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        """Train on pairs, fill the memory, then fit the classifier to it.

        A run that is resumed in between has the memory of the task's start, so filling is repeated
        with the same network and gives the same.
        """
        schedule = self.config.schedule(task)
        pairs = self.phase("train", task.train, schedule, replay=self.replay())
        assert self.memory is not None, "the method keeps exemplars"
        twins = through_codec(self.memory, task.train, reader)
        yield replace(pairs, twins=twins, shows_pairs=True)
        self.remember(task, reader)
        exemplars = self.replay()
        if task.index > 0 and exemplars is not None:
            adaptation = self.config.adaptation or schedule
            rows = list(self.classifier.parameters())
            yield self.phase("adapt", exemplars, adaptation, parameters=rows, loss=self._adapt)

    def loss(self, batch: Batch) -> Terms:
        """Sigmoid losses over originals and twins; an exemplar is both, and so counts twice."""
        twins = batch.views if batch.twin_views is None else batch.twin_views
        views = torch.cat([batch.views, twins])  # [2B, C, H, W]
        labels = torch.cat([batch.labels, batch.labels])
        old = None if self.teacher is None else self.teacher(views)  # [2B, K_old]
        classify, soft = sigmoid_losses(self.predict(views), labels, old, self.num_averaged)
        return {"classify": classify} | ({} if old is None else {"distill": soft})

    def _adapt(self, batch: Batch) -> Terms:
        """True labels for all classes; batch statistics are frozen like the features."""
        self.backbone.eval()
        scores = self.predict(batch.views)
        return {"classify": sigmoid_losses(scores, batch.labels, None, self.num_averaged)[0]}

    def end_task(self, task: Task, reader: Reader) -> None:
        """The memory was filled before the classifier was fitted to it."""
