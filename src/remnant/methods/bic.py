"""BiC: replay with distillation, then two numbers that undo the bias towards new classes.

[bic] Wu et al., CVPR 2019.

Stage 1 trains on new images and exemplars, with the corrected network of the task before as
teacher. Stage 2 freezes the network and fits beta and gamma, a linear correction of the new
classes' scores, on a balanced validation set that stage 1 never saw: of every class that arrives
some images are set aside, and they are its validation exemplars as long as the memory has room.

Departs from [bic]: features are unit vectors in herding, and a class is herded once, as by every
method here; the released code herds plain features, again after every task.
Departs from [bic]: weight decay is the same in all tasks; the released code divides it by the
number of the task.
Departs from [bic]: at 224 px views are random resized crops; the released code resizes the shorter
side to 256 to 512 px and crops.

With `codec_view_ratio` above 0, validation images of new classes are coded too, as exemplars are.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import chain
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from remnant.errors import InputError
from remnant.images import ImageSet, Task
from remnant.methods.backbones import BackboneConfig, build_linear_network
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.coded_twins import through_codec
from remnant.methods.distillation import DistillationConfig, distill
from remnant.methods.teacher import Frozen, frozen_copy
from remnant.models.correction import BiasCorrection
from remnant.phases import Batch, OptimizerConfig, Phase, Reader, Schedule, Terms

# [bic] released; the batch size is Chosen: the usual one, more than most validation sets hold.
CORRECTION = Schedule(
    epochs=200,
    batch_size=128,
    optimizer=OptimizerConfig(lr=0.1, schedule="steps", milestones=(60, 120, 160, 180)),
)


class BiCConfig(MethodConfig):
    """Defaults are those of [bic]."""

    name: Literal["bic"] = "bic"
    backbone: BackboneConfig = BackboneConfig()
    # Times the share of old classes, while the cross-entropy counts with that of new ones.
    distillation: DistillationConfig = DistillationConfig()
    validation_ratio: float = Field(default=0.1, gt=0, lt=1)  # of the exemplars of each class
    correction: Schedule = CORRECTION
    shift_penalty: float = Field(default=0.1, ge=0)  # times gamma^2 / 2


class BiC(Method[BiCConfig]):
    Config = BiCConfig
    corrects_prior: ClassVar[bool] = True

    def __init__(self, config: BiCConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.backbone, self.classifier = build_linear_network(config.backbone, context.num_channels)
        self.correction = BiasCorrection()
        self.teacher: Frozen[nn.Sequential] | None = None
        self.aside: dict[int, Tensor] = {}  # of each class of a task, positions among its images
        self.validation_scores = torch.empty(0)  # [N, K], uncorrected, while stage 2 lasts
        self._check_memory(sum(context.task_sizes))

    def _check_memory(self, num_classes: int) -> None:
        """There must be room for two exemplars of every class; known late where sizes vary."""
        capacity = None if self.memory is None else self.memory.capacity(num_classes)
        if self.memory is not None and capacity is None:
            capacity = min(self.memory.counts, default=2)
        if capacity is not None and capacity < 2:
            raise InputError(
                "bic keeps at least one exemplar of a class to train on and one to validate with; "
                f"memory.budget holds {capacity} with {num_classes} classes. Raise it."
            )

    # -------------------------------------------------------------------------------- the six verbs

    def begin_task(self, task: Task, reader: Reader) -> None:
        corrected = nn.Sequential(self.backbone, self.classifier, self.correction)
        self.teacher = frozen_copy(corrected) if task.index > 0 else None
        self.grow(task)
        names = dict(zip(task.new_labels, task.class_names, strict=True))
        self.aside = {
            label: self._set_aside(task.train.of_class(label), label, name, reader)
            for label, name in names.items()
        }

    def grow(self, task: Task) -> None:
        super().grow(task)
        self.correction.restart(task.num_old_classes)

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        train, aside = self._split_new(task)
        exemplars, validation = self._split_memory()
        network = [*self.backbone.parameters(), *self.classifier.parameters()]
        schedule = self.config.schedule(task)
        yield self.phase("train", train, schedule, replay=exemplars, parameters=network)
        if validation is None:
            return
        if self.memory is not None and self.config.codec_view_ratio > 0:
            aside = through_codec(self.memory, aside, reader)  # as the exemplars beside them are
        joined = join(aside, validation, reader)
        self.validation_scores = reader.apply(self._scores, joined)
        yield self.phase(
            "correct",
            joined,
            # Classes of few images may lack some exemplars; where none does this changes nothing.
            self.config.correction.model_copy(update={"sampling": "balanced"}),
            parameters=list(self.correction.parameters()),
            loss=self._fit_correction,
        )

    def loss(self, batch: Batch) -> Terms:
        scores = self._scores(batch.views)  # [B, K]
        classify = F.cross_entropy(batch.corrected(scores), batch.labels)
        if self.teacher is None:
            return {"classify": classify}
        old = self.teacher(batch.views)  # [B, K_old]
        old_share = old.shape[1] / scores.shape[1]  # lambda
        return {
            "classify": (1 - old_share) * classify,
            "distill": old_share * distill(self.config.distillation, scores, old),
        }

    def predict(self, views: Tensor) -> Tensor:
        return self.correction(self._scores(views))

    def end_task(self, task: Task, reader: Reader) -> None:
        self.remember(task, reader)
        self.aside = {}  # from here on, images that are offered are others than those of the task
        self._check_memory(task.num_seen_classes)

    # -------------------------------------------------------------------------- fitting two numbers

    def _scores(self, views: Tensor) -> Tensor:
        return self.classifier(self.features(views))

    def _fit_correction(self, batch: Batch) -> Terms:
        """[bic] stage 2, on scores that were computed once, since the network is frozen."""
        scores = self.validation_scores[batch.ids].to(batch.labels.device)
        return {
            "classify": F.cross_entropy(self.correction(scores), batch.labels),
            "shift": self.config.shift_penalty * self.correction.gamma.square() / 2,
        }

    # ---------------------------------------------------------------------- training and validation

    def rank_exemplars(self, images: ImageSet, label: int, count: int, reader: Reader) -> Tensor:
        """Herded images with those set aside among them, so that any prefix has its share.

        Of images that are no part of the task, such as those a learner holds back, none are set
        aside.
        """
        if label not in self.aside:
            return super().rank_exemplars(images, label, count, reader)
        train, aside = self._split(len(images), label)
        is_validation = validation_ranks(count, self.config.validation_ratio)
        # Where there is room for more than a share: only as far as images for validation last.
        is_validation = is_validation[is_validation.cumsum(0) <= len(aside)]
        num_trained = int((~is_validation).sum())
        herded = super().rank_exemplars(images.select(train), label, num_trained, reader)
        ranks = torch.empty(len(is_validation), dtype=torch.int64)
        ranks[~is_validation] = train[herded]
        ranks[is_validation] = aside[: len(ranks) - num_trained]
        return ranks

    def _set_aside(self, images: ImageSet, label: int, name: str, reader: Reader) -> Tensor:
        """Positions of a new class's images for validation, in random order.

        As many as the old classes have for it in this task; in the first task, as many as will be
        kept. Where exemplars vary in size, that share of all images.
        """
        if len(images) < 2:
            raise InputError(
                f"bic trains on some images of a class and validates with others; class {name!r} "
                f"has {len(images)}. Give it at least 2, or leave it out."
            )
        num_sharing = self.correction.first or self.classifier.num_classes
        capacity = None if self.memory is None else self.memory.capacity(num_sharing)
        count = len(images) if capacity is None else min(capacity, len(images))
        num_aside = int(validation_ranks(count, self.config.validation_ratio).sum())
        rng = reader.generator("validation", label)
        return torch.randperm(len(images), generator=rng)[:num_aside]

    def _split(self, num_images: int, label: int) -> tuple[Tensor, Tensor]:
        """Positions of a new class's images for training and for validation."""
        is_trained = torch.ones(num_images, dtype=torch.bool)
        is_trained[self.aside[label]] = False
        return torch.nonzero(is_trained).flatten(), self.aside[label]

    def _split_new(self, task: Task) -> tuple[ImageSet, ImageSet]:
        """The images of the new classes, for training and for validation."""
        train, aside = [], []
        for label in task.new_labels:
            places = torch.nonzero(task.train.labels == label).flatten()
            for chosen, part in zip((train, aside), self._split(len(places), label), strict=True):
                chosen.append(places[part])
        return task.train.select(torch.cat(train)), task.train.select(torch.cat(aside))

    def _split_memory(self) -> tuple[ImageSet | None, ImageSet | None]:
        """The exemplars of the old classes, for training and for validation."""
        replay = self.replay()
        if replay is None or self.memory is None:
            return None, None
        ratio = self.config.validation_ratio
        is_validation = torch.cat([validation_ranks(count, ratio) for count in self.memory.counts])
        places = torch.arange(len(replay))
        return replay.select(places[~is_validation]), replay.select(places[is_validation])


def validation_ranks(count: int, ratio: float) -> Tensor:
    """Which of a class's first `count` ranks are for validation: bool [count].

    Among the first m they are floor(m * ratio), but at least one where m >= 2.
    """
    exact = Decimal(str(ratio))  # 0.7 of 10 are 7, not 6
    totals = [0, 0, *(max(1, int(size * exact)) for size in range(2, count + 1))]
    return torch.tensor(totals[: count + 1]).diff().bool()


def join(new: ImageSet, exemplars: ImageSet, reader: Reader) -> ImageSet:
    """Both in one set, decoded once, with ids that count from 0."""
    labels = torch.cat([new.labels, exemplars.labels])
    batches = chain(reader.images(new), reader.images(exemplars))
    images = reader.hold(batches, labels, new.images.shape)
    return ImageSet(images, labels, torch.arange(len(labels)))
