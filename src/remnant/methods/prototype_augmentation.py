"""Prototype augmentation and self-supervision (PASS): one noisy mean feature stands for a class.

[pass] Zhu et al., CVPR 2021; numbers are those of its released code for CIFAR-100.

No images are kept. An old class is remembered by its prototype, the mean feature of its training
images, and the classifier is trained on prototypes with Gaussian noise beside the new images. The
features must not move away from their prototypes, so a teacher holds them. Every image is learned
in four rotations as four classes, so that features are general enough to serve later classes too;
predictions use the upright ones.

Departs from [pass]: recipes crop and flip; released, brightness varies too.
Departs from [pass]: prototypes and radius come from all training images as they are; released, from
augmented ones in whole batches.
Departs from [pass]: with several processes, or gradients accumulated, the distance over a batch is
that of its parts.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from remnant.errors import InputError
from remnant.images import Task
from remnant.memory.keeps import Keeps, KeptTensors
from remnant.methods.backbones import BackboneConfig, build_linear_network
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.teacher import Frozen, frozen_copy
from remnant.phases import Batch, Reader, Terms

TURNS = 4  # rotations of an image, each a class of its own


class PASSConfig(MethodConfig):
    name: Literal["pass"] = "pass"
    backbone: BackboneConfig = BackboneConfig(name="resnet18")
    temperature: float = Field(default=0.1, gt=0)  # of all scores in training
    prototype_weight: float = Field(default=10.0, ge=0)  # of the loss on noisy prototypes
    # Of the distance between the features of a whole batch: neither squared nor a mean
    feature_weight: float = Field(default=10.0, ge=0)


class PASS(Method[PASSConfig]):
    Config = PASSConfig
    uses_memory: ClassVar[bool] = False
    prototypes: Tensor  # [K, D], zero for the classes that are being learned
    radius: Tensor  # of the noise: the deviation of features in the first task

    def __init__(self, config: PASSConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        height, width, _ = context.image_shape
        if height != width:
            raise InputError(
                f"pass learns images in four rotations, so they must be square; got {height} x "
                f"{width}. Set data.image_size."
            )
        self.backbone, self.classifier = build_linear_network(config.backbone, context.num_channels)
        self.register_buffer("prototypes", torch.zeros(0, self.classifier.width))
        self.register_buffer("radius", torch.zeros(()))
        self.teacher: Frozen[nn.Module] | None = None
        self.num_old_classes = 0

    def grow(self, task: Task) -> None:
        self.classifier.grow(TURNS * task.num_new_classes)
        room = self.prototypes.new_zeros(task.num_new_classes, self.classifier.width)
        self.prototypes = torch.cat([self.prototypes, room])

    def begin_task(self, task: Task, reader: Reader) -> None:
        self.teacher = frozen_copy(self.backbone) if task.index > 0 else None
        self.num_old_classes = task.num_old_classes
        super().begin_task(task, reader)

    def loss(self, batch: Batch) -> Terms:
        config = self.config
        views = rotations(batch.views)  # [4B, C, H, W]
        labels = rotated_labels(batch.labels)  # [4B]
        features = self.backbone(views)  # [4B, D]
        scores = self.classifier(features) / config.temperature  # [4B, 4K]
        terms = {"classify": F.cross_entropy(scores, labels)}
        if self.teacher is not None:
            terms["prototypes"] = config.prototype_weight * self.prototype_loss(batch)
            moved = (features - self.teacher(views)).float().norm()
            terms["distill"] = config.feature_weight * moved
        return terms

    def prototype_loss(self, batch: Batch) -> Tensor:
        """Cross-entropy of noisy prototypes, as many as images, of old classes at random."""
        chosen = (batch.draw("class", 1)[:, 0] * self.num_old_classes).long()  # [B]
        noise = normal(batch.draw("noise", self.classifier.width))  # [B, D]
        scores = self.classifier(self.prototypes[chosen] + self.radius * noise)
        return F.cross_entropy(scores / self.config.temperature, TURNS * chosen)

    def predict(self, views: Tensor) -> Tensor:
        return self.classifier(self.features(views))[:, ::TURNS]

    def end_task(self, task: Task, reader: Reader) -> None:
        """Keep the mean feature of every new class, and in the first task how far they scatter."""
        variances = []
        for label in task.new_labels:
            features = reader.apply(self.features, task.train.of_class(label))  # [N, D]
            self.prototypes[label] = features.mean(dim=0).to(self.prototypes)
            variances.append(features.var(dim=0, correction=min(1, len(features) - 1)).mean())
        if task.index == 0:
            self.radius.copy_(torch.stack(variances).mean().sqrt())

    def kept(self) -> list[Keeps]:
        tensors = {"prototypes": self.prototypes, "radius": self.radius}
        return [*super().kept(), KeptTensors("prototypes", tensors)]


def rotations(views: Tensor) -> Tensor:
    """[B, C, H, H] -> [4B, C, H, H]: each view and its turns by a quarter, one after the other."""
    turned = [torch.rot90(views, turn, (2, 3)) for turn in range(TURNS)]
    return torch.stack(turned, dim=1).flatten(0, 1)


def rotated_labels(labels: Tensor) -> Tensor:
    """[B] -> [4B], those of `rotations`: 4 y for an upright image, then 4 y + 1 to 4 y + 3."""
    turns = torch.arange(TURNS, device=labels.device)
    return (TURNS * labels[:, None] + turns).flatten()


def normal(uniform: Tensor) -> Tensor:
    """Normal numbers from uniform ones in [0, 1), which are multiples of 2^-24."""
    return torch.special.ndtri(uniform.clamp(min=2**-25))
