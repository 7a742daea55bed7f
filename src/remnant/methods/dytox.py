"""DyTox: one transformer for all tasks, with a learned token and a head for each.

[dytox] Douillard et al., CVPR 2022. [mixup] Zhang et al., ICLR 2018.
[bimae] Zhai et al., ICCV 2023.

Self-attention blocks are shared. The last block is applied once per task, with that task's learned
token as query, and an independent head of sigmoids scores the classes of the task. A task adds a
token and a head and nothing else. The network after the previous task is the teacher; while a task
is learned, a diversity head separates the new classes from one another and from all old ones; then
the last block is tuned with all tokens and heads on the balanced memory.

Variants are settings: DyTox+ has `mixup`; with a codec that keeps some patches, `masked_input` says
how an exemplar enters, which [bimae] does not specify.

Departs from [dytox]: exemplars are herded by their test views; the release augments them at random.
Departs from [dytox]: tuning shuffles the memory; on ImageNet the release passes it class by class.
Departs from [dytox]: task tokens have no weight decay; released, they have as much as weights.
Departs from [dytox]: an odd batch is kept under mixup, its middle image unmixed; the release drops
what is left of an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from remnant.errors import InputError
from remnant.images import ImageSet, Task, patches_to_pixels
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.distillation import DistillationConfig, distill
from remnant.methods.partial_exemplars import require_patches
from remnant.methods.teacher import Frozen, frozen_copy
from remnant.models.task_transformer import TaskTransformer
from remnant.phases import Batch, OptimizerConfig, Phase, Reader, Schedule, Terms
from remnant.settings import Settings

# [dytox] released, on CIFAR-100 with two GPUs of 128 images: rates are for 512 images.
TUNING = Schedule(
    epochs=20,
    batch_size=256,
    views_per_image=3,
    optimizer=OptimizerConfig(
        name="adamw", lr=5e-5 * 256 / 512, weight_decay=1e-6, decay_norms_and_biases=False
    ),
)


class TaskTransformerConfig(Settings):
    """The network; defaults are those of [dytox] on CIFAR-100."""

    patch_size: int = Field(default=4, ge=1)  # px
    width: int = Field(default=384, ge=1)
    depth: int = Field(default=5, ge=1)  # of the shared blocks
    head_width: int = Field(default=32, ge=1)
    mlp_width: int = Field(default=1536, ge=1)
    # Share of residuals dropped in training: from 0 in the first block in a line up to this.
    drop_path_ratio: float = Field(default=0.1, ge=0, lt=1)
    initial_deviation: float = Field(default=0.02, gt=0)  # of blocks, tokens and positions


class MixupConfig(Settings):
    """Images mixed in pairs, and their labels likewise; defaults are those of DyTox+."""

    alpha: float = Field(default=0.8, gt=0)  # shares come from Beta(alpha, alpha)
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)


class DyToxConfig(MethodConfig):
    """Defaults are those of [dytox]."""

    name: Literal["dytox"] = "dytox"
    network: TaskTransformerConfig = TaskTransformerConfig()
    # Times the share of old classes, while the labels count with that of new ones. The mean over
    # entries makes it weaker by the number of old classes than the paper says.
    distillation: DistillationConfig = DistillationConfig(
        temperature=1.0, form="divergence", times_temperature_squared=True, mean_over="entries"
    )
    diversity_weight: float = Field(default=0.1, ge=0)  # of telling new classes from any old one
    mixup: MixupConfig | None = None  # MixupConfig(): DyTox+
    balanced_tuning: Schedule | None = TUNING  # on the memory, after each task but the first
    # How an exemplar known in part enters. "mean": whole, with hidden patches in the mean colour
    # of the data set; "tokens": by its known patches alone, each at its own place.
    masked_input: Literal["mean", "tokens"] = "mean"
    # "symmetric": from the first task on, new images are shown as exemplars are, masked as much, so
    # that no network can tell old classes from new ones by their looks.
    presentation: Literal["published", "symmetric"] = "published"


class DyTox(Method[DyToxConfig]):
    Config = DyToxConfig
    diversity: nn.Sequential | None

    def __init__(self, config: DyToxConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        try:
            self.network = TaskTransformer(context.image_shape, **config.network.model_dump())
        except ValueError as error:
            raise InputError(f"method.network: {error}") from None
        self.diversity = None  # between tasks
        self.teacher: Frozen[TaskTransformer] | None = None
        self.twins: ImageSet | None = None  # the new images as they would be replayed
        self._check_masked_input()

    def _check_masked_input(self) -> None:
        if self._is_symmetric and self.config.codec_view_ratio > 0:
            raise InputError(
                'with method.presentation="symmetric" new images are always shown as exemplars '
                "are. Leave codec_view_ratio out."
            )
        is_partial = self.memory is not None and self.memory.codec.is_partial
        if self.config.codec_view_ratio > 0 and is_partial:
            raise InputError(
                "where patches are stored, dytox shows new images as exemplars are by "
                "method.presentation=symmetric instead. Leave codec_view_ratio out."
            )
        if self.config.masked_input == "mean":
            return
        patch_size = self.config.network.patch_size
        require_patches(self.memory, patch_size, 'method.masked_input="tokens" is')
        if self.config.mixup is not None:
            raise InputError(
                "images with different patches cannot be mixed. Set method.mixup to none, or "
                'method.masked_input to "mean".'
            )

    # -------------------------------------------------------------------------------- the six verbs

    def begin_task(self, task: Task, reader: Reader) -> None:
        self.twins = self._present(task.train, reader)
        self.teacher = frozen_copy(self.network) if task.index > 0 else None
        self.grow(task)
        if task.index > 0 and self.config.diversity_weight > 0:
            self.diversity = self.network.make_head(task.num_new_classes + 1)

    def grow(self, task: Task) -> None:
        self.network.grow(task.num_new_classes)

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        replay, schedule = self._exemplars(reader), self.config.schedule(task)
        parameters = self._learning_parameters()
        train = self.phase("train", task.train, schedule, replay=replay, parameters=parameters)
        yield replace(
            train,
            partial_view_ratio=self._partial_view_ratio,
            aligns_new=self._is_symmetric,
            twins=self.twins,
        )
        self.remember(task, reader)  # already: tuning is on the memory, new classes included
        tuning, exemplars = self.config.balanced_tuning, self._exemplars(reader)
        if tuning is not None and exemplars is not None and task.index > 0:
            parameters = self._tuned_parameters()
            tune = self.phase("tune", exemplars, tuning, parameters=parameters, loss=self._tune)
            yield replace(tune, partial_view_ratio=self._partial_view_ratio)

    def loss(self, batch: Batch) -> Terms:
        views, targets = self._mix(batch)
        known = self.shown_patches(batch)
        embeddings = self._embed(batch, views, known)  # [B, T, D]
        scores = self.network.classify(embeddings)  # [B, K]
        classify = F.binary_cross_entropy_with_logits(scores, targets)
        if self.teacher is None:
            return {"classify": classify}
        with torch.no_grad():
            old = self.teacher.network(views, known)  # [B, K_old]
        num_old = old.shape[1]
        old_share = num_old / scores.shape[1]
        terms = {
            "classify": (1 - old_share) * classify,
            "distill": old_share * distill(self.config.distillation, scores, old),
        }
        if self.diversity is not None:
            apart = self.diversity(embeddings[:, -1])  # [B, 1 + K_new]
            diversity = F.binary_cross_entropy_with_logits(apart, merge(targets, num_old))
            terms["diversity"] = self.config.diversity_weight * diversity
        return terms

    def _tune(self, batch: Batch) -> Terms:
        """Classification alone; residuals are dropped in the frozen blocks too, as released."""
        views, targets = self._mix(batch)
        scores = self.network.classify(self._embed(batch, views, self.shown_patches(batch)))
        return {"classify": F.binary_cross_entropy_with_logits(scores, targets)}

    def predict(self, views: Tensor) -> Tensor:
        return self.network(views)

    def features(self, views: Tensor) -> Tensor:
        """The embeddings of all tasks, one after the other: [B, T * D]."""
        return self.network.embed(views).flatten(1)

    def end_task(self, task: Task, reader: Reader) -> None:
        """The memory was filled after the first phase; the diversity head is no longer needed."""
        self.diversity = None

    # ----------------------------------------------------------------------------- what is moved

    def _learning_parameters(self) -> list[nn.Parameter]:
        """All but the tokens and heads of old tasks."""
        network = self.network
        return [
            *network.encoder_parameters(),
            *network.task_block.parameters(),
            network.task_tokens[-1],
            *network.heads[-1].parameters(),
            *([] if self.diversity is None else self.diversity.parameters()),
        ]

    def _tuned_parameters(self) -> list[nn.Parameter]:
        network = self.network
        parts = (network.task_block, network.task_tokens, network.heads)
        return [parameter for part in parts for parameter in part.parameters()]

    # ---------------------------------------------------------------------------- what is shown

    def _exemplars(self, reader: Reader) -> ImageSet | None:
        return None if self.memory is None else self.memory.images(_mean_colour(reader))

    def _present(self, new: ImageSet, reader: Reader) -> ImageSet | None:
        """The new images as the memory would give them back; None where they are shown otherwise.

        By tokens they are masked anew at every step, see `shown_patches`: more of them is seen.
        """
        is_shown_so = self._is_symmetric and self.config.masked_input == "mean"
        if self.memory is None or not is_shown_so:
            return None
        images = (image for batch in reader.images(new) for image in batch.numpy())
        return self.memory.present(images, _mean_colour(reader))

    @property
    def _is_symmetric(self) -> bool:
        return self.config.presentation == "symmetric"

    @property
    def _partial_view_ratio(self) -> float:
        """As whole images, exemplars are cropped and augmented like the new ones."""
        return 1.0 if self.config.masked_input == "tokens" else 0.0

    def shown_patches(self, batch: Batch) -> Tensor | None:
        """See `SeesParts`; symmetric, as many patches of a new image as of an exemplar."""
        if self.config.masked_input == "mean":
            return None
        if not self._is_symmetric:
            return batch.is_known
        chosen = self._choose_patches(batch)
        if batch.is_known is None:
            return chosen
        is_whole = batch.is_known.flatten(1).all(dim=1)
        return torch.where(is_whole[:, None, None], chosen, batch.is_known)

    def _choose_patches(self, batch: Batch) -> Tensor:
        """As many random patches of each image as the memory stores: bool [B, GH, GW]."""
        codec = require_patches(self.memory, self.config.network.patch_size, "masked_input is")
        noise = batch.draw("mask", codec.patches.num_patches)
        chosen = noise.argsort(dim=1).argsort(dim=1) < codec.num_visible
        return chosen.unflatten(1, codec.patches.cells)

    def predict_parts(self, views: Tensor, is_known: Tensor) -> Tensor:
        """See `SeesParts`; where exemplars are shown by `masked_input="mean"`, so is this."""
        if self.config.masked_input == "tokens":
            return self.network(views, is_known)
        pixels = patches_to_pixels(is_known, (views.shape[2], views.shape[3]))
        return self.network(views * pixels[:, None])  # 0 is the mean colour

    def _embed(self, batch: Batch, views: Tensor, known: Tensor | None) -> Tensor:
        draws = batch.draw("drop path", self.network.num_draws)
        return self.network.embed(views, known, draws)

    def _mix(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Views [B, C, H, W] and targets [B, K], mixed if the config says so.

        Chosen: images of one part of a batch are mixed with one another, as in the release, where
        each process mixes its own; so with mixup it matters how many processes there are.
        """
        num_classes = self.network.num_classes
        targets = F.one_hot(batch.labels, num_classes).to(batch.views)
        config = self.config.mixup
        if config is None:
            return batch.views, targets
        share = draw_share(float(batch.draw("mixup")[0]), config.alpha)
        smoothing = config.label_smoothing
        targets = (1 - smoothing) * targets + smoothing / num_classes
        return mix(batch.views, share), mix(targets, share)


def _mean_colour(reader: Reader) -> list[int]:
    return [round(255 * level) for level in reader.mean]


def draw_share(uniform: float, alpha: float) -> float:
    """A number from Beta(alpha, alpha), decided by one in [0, 1)."""
    return float(np.random.default_rng(int(uniform * 2**24)).beta(alpha, alpha))


def mix(rows: Tensor, share: float) -> Tensor:
    """Each of the rows [B, ...] with its counterpart from the other end of the batch [mixup]."""
    return share * rows + (1 - share) * rows.flip(0)


def merge(targets: Tensor, num_old_classes: int) -> Tensor:
    """Targets [B, K] with all old classes as one, before the new ones: [B, 1 + K_new]."""
    old, new = targets[:, :num_old_classes], targets[:, num_old_classes:]
    return torch.cat([old.sum(dim=1, keepdim=True), new], dim=1)
