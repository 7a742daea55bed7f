"""Mnemonics: exemplars whose pixels are optimised, so that training on them serves real images.

[mnemonics] Liu et al., CVPR 2020. [ucir] Hou et al., CVPR 2019.

A cosine classifier [ucir] is trained with cross-entropy and distillation. Exemplars are herded.
Then their pixels become parameters: a copy of the network takes a step of descent on some of them,
and its loss on real images is differentiated through that step, back to the pixels. Old exemplars
are adjusted to the new network in the same way, in two halves that serve as each other's real
images. What is stored are bytes: pixels are clamped and rounded.

Departs from [mnemonics]: the network's own weights are trained in all tasks; the released code
freezes convolutions after the first and trains a factor for each pair of their channels.
Departs from [mnemonics]: exemplar-level optimisation is that of the paper; the released code
compares features with means of exemplars, and leaves old exemplars as they are.
Departs from [mnemonics]: pixels are clamped when they become bytes; the released code wraps around.
Departs from [mnemonics]: pixels move by Adam, about a byte at a step; at the released rate of plain
descent, 1e-5, none moves far enough to be rounded to another byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from remnant.images import ImageSet, Task
from remnant.memory import Candidate
from remnant.memory.keeps import Keeps
from remnant.methods.backbones import BackboneConfig, build_backbone
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.distillation import DistillationConfig, distill
from remnant.methods.nearest_mean import NearestMean, fill_from_memory, unused_head
from remnant.methods.teacher import Frozen, make_teacher
from remnant.methods.ucir import mean_directions
from remnant.methods.virtual_steps import after_steps
from remnant.models.cosine import CosineClassifier
from remnant.phases import Batch, OptimizerConfig, Phase, Reader, Schedule, Terms

# One pass, as released. Rates are in units of normalised pixels.
PIXELS = Schedule(
    epochs=1, batch_size=128, optimizer=OptimizerConfig(name="adam", lr=0.01, schedule="cosine")
)
RELEASED = DistillationConfig(
    weight=0.25, temperature=2.0, form="divergence", times_temperature_squared=True
)


class MnemonicsConfig(MethodConfig):
    """Defaults are those of the release on CIFAR-100, where nothing else is said."""

    name: Literal["mnemonics"] = "mnemonics"
    backbone: BackboneConfig = BackboneConfig(shortcut="project", has_last_relu=False)  # [ucir]
    distillation: DistillationConfig = RELEASED
    pixels: Schedule = PIXELS  # of new exemplars on new images, and of old ones on each other
    adjusts_old: bool = True  # exemplars of earlier tasks too
    inner_lr: float = Field(default=0.1, gt=0)  # alpha, of the temporary network; released
    inner_steps: int = Field(default=1, ge=1)  # Chosen: each more costs as much again
    inner_images: int = Field(default=64, ge=1)  # Chosen: exemplars that such a step sees
    prediction: Literal["scores", "nearest-mean"] = "scores"
    mirror_exemplars: bool = True  # class means include mirror images


class Mnemonics(Method[MnemonicsConfig]):
    Config = MnemonicsConfig
    corrects_prior: ClassVar[bool] = True
    pixels: nn.Parameter | None  # float [N, C, H, W], normalised; while exemplars are optimised

    def __init__(self, config: MnemonicsConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        backbone = build_backbone(config.backbone, context.num_channels)
        self.backbone = backbone
        self.cosine = CosineClassifier(backbone.width)
        self.nearest_mean = NearestMean(backbone.width)
        self.teacher: Frozen[nn.Sequential] | None = None
        self.register_parameter("pixels", None)
        self.pixel_labels = torch.empty(0, dtype=torch.int64)  # [N]

    def grow(self, task: Task) -> None:
        self.cosine.grow(task.num_new_classes)
        self.nearest_mean.grow(task.num_new_classes)

    def begin_task(self, task: Task, reader: Reader) -> None:
        self.teacher = make_teacher(self.backbone, self.cosine) if task.index > 0 else None
        self.grow(task)
        if task.index > 0:
            features = reader.apply(self.features, task.train)
            self.cosine.imprint(mean_directions(features, task.train.labels, task.new_labels))

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        """Train, herd, optimise new exemplars, then old ones.

        A run that is resumed in between has the memory of the task's start and the networks and
        pixels at the ends of the phases behind it, from which the memory comes out the same.
        """
        network = [*self.backbone.parameters(), self.cosine.new, self.cosine.scale]
        schedule = self.config.schedule(task)
        replay = self.replay()
        yield self.phase("train", task.train, schedule, replay=replay, parameters=network)
        self.remember(task, reader)
        self._open(task.new_labels, reader)
        yield self._pixel_phase("optimise", task.train, self._serve)
        self._store(reader)
        if task.index > 0 and self.config.adjusts_old:
            old = self._open(range(task.num_old_classes), reader)
            yield self._pixel_phase("adjust", old, self._serve_each_other)
            self._store(reader)

    def _pixel_phase(self, name: str, data: ImageSet, loss: Callable[[Batch], Terms]) -> Phase:
        return self.phase(name, data, self.config.pixels, parameters=[self._pixels()], loss=loss)

    def loss(self, batch: Batch) -> Terms:
        scores = self.cosine(self.features(batch.views))  # [B, K]
        terms = {"classify": F.cross_entropy(batch.corrected(scores), batch.labels)}
        if self.teacher is not None:
            terms["distill"] = distill(self.config.distillation, scores, self.teacher(batch.views))
        return terms

    # ------------------------------------------------------------------------- pixels as parameters

    def _open(self, labels: range, reader: Reader) -> ImageSet:
        """Make parameters of the exemplars of some classes, and return these exemplars."""
        exemplars = self.replay()
        assert exemplars is not None, "the memory holds the classes seen"
        is_chosen = (exemplars.labels >= labels.start) & (exemplars.labels < labels.stop)
        chosen = exemplars.select(torch.nonzero(is_chosen).flatten())
        images = torch.cat(list(reader.images(chosen)))
        self.pixels = nn.Parameter(reader.views(images))
        self.pixel_labels = chosen.labels.to(self.pixels.device)
        return chosen

    def _store(self, reader: Reader) -> None:
        """Put the pixels back as bytes, class by class and rank by rank."""
        assert self.memory is not None, "the method keeps exemplars"
        images, labels = reader.to_images(self._pixels().detach()), self.pixel_labels.cpu()
        for label in labels.unique().tolist():
            changed = images[labels == label].numpy()
            self.memory.replace_class(label, map(Candidate, changed))
        self.pixels = None

    def _serve(self, batch: Batch) -> Terms:
        """Loss on new images after training on some new exemplars [mnemonics] eqs. 7, 8."""
        rows = torch.arange(len(self.pixel_labels))
        return {"serve": self._transfer(rows, batch.views, batch.labels)}

    def _serve_each_other(self, batch: Batch) -> Terms:
        """Old exemplars of even and of odd rank, each as the real images of the other.

        The batch says which serve as real images, by their places in the memory, where old classes
        come first.
        Chosen: real images are exemplars as they were when the phase began.
        """
        is_even = self._is_even()
        side = is_even[batch.ids].to(batch.labels.device)
        terms: Terms = {}
        for name, half in (("even", is_even), ("odd", ~is_even)):
            real = side if name == "odd" else ~side  # of the other half
            rows = torch.nonzero(half).flatten()
            if len(rows) and bool(real.any()):
                share = float(real.double().mean())
                loss = self._transfer(rows, batch.views[real], batch.labels[real])
                terms[f"serve {name}"] = share * loss
        return terms or {"serve even": 0 * self._pixels().sum()}

    def _is_even(self) -> Tensor:
        """Of the open exemplars, those of even rank: bool [N] on the CPU."""
        labels = self.pixel_labels.cpu()
        first = torch.searchsorted(labels, labels)  # where the class of each begins
        return (torch.arange(len(labels)) - first) % 2 == 0

    def _transfer(self, rows: Tensor, views: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy on views of a temporary network, trained on some of these exemplars.

        Which, the global generator decides, which starts anew at every step in all processes.
        """
        self.eval()  # batch statistics are those of training
        some = rows[torch.randperm(len(rows))[: self.config.inner_images]].to(views.device)
        network = nn.Sequential(self.backbone, self.cosine)
        trained = after_steps(
            network,
            lambda scores: F.cross_entropy(scores, self.pixel_labels[some]),
            self._pixels()[some],
            self.config.inner_lr,
            self.config.inner_steps,
        )
        return F.cross_entropy(trained(views), labels)

    def _pixels(self) -> nn.Parameter:
        assert self.pixels is not None, "exemplars are open"
        return self.pixels

    # ------------------------------------------------------------------------------------ the rest

    def predict(self, views: Tensor) -> Tensor:
        is_by_means = self.config.prediction == "nearest-mean"
        head = self.nearest_mean if is_by_means else self.cosine
        return head(self.features(views))

    def end_task(self, task: Task, reader: Reader) -> None:
        """The memory is filled; the means of its optimised exemplars are taken."""
        is_mirrored = self.config.mirror_exemplars
        fill_from_memory(self.nearest_mean, self, reader, is_mirrored=is_mirrored)

    def kept(self) -> list[Keeps]:
        unused = unused_head(self.config.prediction, self.cosine, self.nearest_mean)
        return [*super().kept(), unused]
