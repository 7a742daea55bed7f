"""GFR: features of old classes are generated, and the network keeps its features by distillation.

[gfr] Liu et al., CVPR workshops 2020. [wgan-gp] Gulrajani et al., NeurIPS 2017.

No image is kept. After each task a generator and a critic learn the features of its classes, while
the generator goes on to give old classes what its copy from before gave. In the next task the
classifier learns from real new features and generated old ones; the extractor, whose batch
statistics are frozen after the first task, is held by the distance between its features and those
of the network before. Generator and critic are carried from task to task, and counted.

Departs from [gfr]: outputs, and rows of generator and critic, appear with their classes; published,
all are there from the start. The critic has no class head, which the release trains to no effect.
Departs from [gfr]: the generator learns after the last task too, since a learner knows no last one.
Departs from [gfr]: all images of an epoch are used, in batches of almost equal size; the release
drops what is left of one.
Departs from [gfr]: with several processes, or gradients accumulated, distances that are summed over
a batch are those of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from remnant.images import Task
from remnant.memory.keeps import Keeps, KeptTensors
from remnant.methods.backbones import BackboneConfig, build_linear_network
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.teacher import Frozen, frozen_copy
from remnant.models.feature_gan import FeatureCritic, FeatureGenerator
from remnant.phases import Batch, OptimizerConfig, Phase, Player, Reader, Schedule, Terms

# [gfr] released for CIFAR-100
GENERATION = Schedule(
    epochs=501,
    batch_size=128,
    optimizer=OptimizerConfig(
        name="adam",
        lr=1e-4,
        betas=(0.5, 0.999),
        schedule="steps",
        milestones=(200, 400),
        gamma=0.3,
    ),
)


class GFRConfig(MethodConfig):
    """Defaults are those of the release on CIFAR-100."""

    name: Literal["gfr"] = "gfr"
    backbone: BackboneConfig = BackboneConfig(name="resnet18")
    feature_weight: float = Field(default=1.0, ge=0)  # of the distance, times the old tasks
    generation: Schedule = GENERATION
    num_noise: int = Field(default=200, ge=1)  # numbers that a generated feature starts from
    num_hidden: int = Field(default=512, ge=1)  # width of generator and critic
    critic_steps: int = Field(default=5, ge=1)  # for each step of the generator
    penalty_weight: float = Field(default=10.0, ge=0)  # [wgan-gp]
    hold_weight: float = Field(default=1e-3, ge=0)  # of old generated features, times the old tasks


class GFR(Method[GFRConfig]):
    Config = GFRConfig
    uses_memory: ClassVar[bool] = False

    def __init__(self, config: GFRConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.backbone, self.classifier = build_linear_network(config.backbone, context.num_channels)
        width, hidden = self.classifier.width, config.num_hidden
        is_positive = config.backbone.has_last_relu
        self.generator = FeatureGenerator(width, config.num_noise, hidden, is_positive)
        self.critic = FeatureCritic(width, hidden)
        self.teacher: Frozen[nn.Module] | None = None  # views -> features
        self.old_generator: Frozen[FeatureGenerator] | None = None
        self.num_old_classes = 0
        self.num_old_tasks = 0.0  # as many as there would be, were all as large as the new one

    # -------------------------------------------------------------------------------- the six verbs

    def grow(self, task: Task) -> None:
        super().grow(task)
        self.generator.grow(task.num_new_classes)
        self.critic.grow(task.num_new_classes)

    def begin_task(self, task: Task, reader: Reader) -> None:
        self.teacher = frozen_copy(self.backbone) if task.index > 0 else None
        self.old_generator = frozen_copy(self.generator) if task.index > 0 else None
        self.num_old_classes = task.num_old_classes
        self.num_old_tasks = task.num_old_classes / task.num_new_classes
        self.grow(task)

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        network = [*self.backbone.parameters(), *self.classifier.parameters()]
        yield self.phase("train", task.train, self.config.schedule(task), parameters=network)
        generation = self.config.generation
        optimizer = generation.optimizer
        players = (
            Player(list(self.critic.parameters()), self._criticise, optimizer),
            Player(
                list(self.generator.parameters()),
                self._generate,
                optimizer,
                every=self.config.critic_steps,
            ),
        )
        yield Phase("generate", task.train, generation, players)

    def loss(self, batch: Batch) -> Terms:
        if self.teacher is None:
            return {"classify": F.cross_entropy(self.predict(batch.views), batch.labels)}
        self.backbone.eval()  # batch statistics are those of the first task
        features = self.features(batch.views)  # [B, D]
        classify = F.cross_entropy(self.classifier(features), batch.labels)
        fake, labels = self._draw_old(batch, "replay")
        replay = F.cross_entropy(self.classifier(fake), labels)
        distance = torch.linalg.vector_norm(features - self.teacher(batch.views))
        count = self.num_old_tasks
        return {
            "classify": classify / (count + 1),
            "replay": count * replay / (count + 1),
            "distill": self.config.feature_weight * count * distance,
        }

    def kept(self) -> list[Keeps]:
        return [
            *super().kept(),
            KeptTensors.of("generator", self.generator),
            KeptTensors.of("critic", self.critic),
        ]

    # ------------------------------------------------------------------------------ two adversaries

    def _criticise(self, batch: Batch) -> Terms:
        """Real features are to score higher than generated ones, with slopes of 1 [wgan-gp]."""
        self.backbone.eval()
        with torch.no_grad():
            real = self.features(batch.views)
            fake = self.generator(self._noise(batch, "fake"), batch.labels)

        def judge(features: Tensor) -> Tensor:
            return self.critic(features, batch.labels)

        mixed = batch.draw("mix", 1)  # [B, 1]
        penalty = slope_penalty(judge, mixed * real + (1 - mixed) * fake)
        return {
            "criticise": judge(fake).mean() - judge(real).mean(),
            "penalty": self.config.penalty_weight * penalty,
        }

    def _generate(self, batch: Batch) -> Terms:
        """Generated features are to score high, and old classes are to stay as they were."""
        fake = self.generator(self._noise(batch, "fake"), batch.labels)
        terms = {"generate": -self.critic(fake, batch.labels).mean()}
        if self.old_generator is not None:
            noise, labels = self._noise(batch, "hold"), self._old_labels(batch, "hold")
            moved = self.generator(noise, labels) - self.old_generator(noise, labels)
            weight = self.config.hold_weight * self.num_old_tasks
            terms["hold"] = weight * moved.square().sum()
        return terms

    @torch.no_grad()
    def _draw_old(self, batch: Batch, purpose: str) -> tuple[Tensor, Tensor]:
        """Features of old classes, as many as the batch has images, and their labels."""
        labels = self._old_labels(batch, purpose)
        return self.generator(self._noise(batch, purpose), labels), labels

    def _old_labels(self, batch: Batch, purpose: str) -> Tensor:
        """Each old class as likely as any other: int64 [B]."""
        return (batch.draw(f"{purpose} labels") * self.num_old_classes).long()

    def _noise(self, batch: Batch, purpose: str) -> Tensor:
        """Standard normal numbers [B, Z] out of uniform ones."""
        uniform = batch.draw(f"{purpose} noise", self.config.num_noise).clamp(1e-6, 1 - 1e-6)
        return 2**0.5 * torch.erfinv(2 * uniform - 1)


def slope_penalty(judge: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """Mean of (length of the gradient of a score - 1) squared, over inputs [B, D] [wgan-gp]."""
    inputs = inputs.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(judge(inputs).sum(), inputs, create_graph=True)
    return (slopes.norm(dim=1) - 1).square().mean()
