"""CIM: exemplars whose discriminative box is kept as it is and whose rest is down-scaled.

[cim] Luo et al., CVPR 2023.

A class-activation map says where an image shows its class; a tight box around the parts above a
threshold is kept. The map comes from the network itself, run with learnable activations in place of
its ReLUs: these, the mask generator, are all that is learned for it. They are learned in two
levels: the network takes a step on images blurred where the map is low, and its loss on real images
after that step is differentiated back to the activations. From time to time boxes are found anew,
and new images are shown compressed more often, as exemplars are.

All else is left to a base method with a residual network and a linear classifier.

Departs from [cim]: the base is weight alignment, which distils too; published, FOSTER, DER and
others of networks that grow.
Departs from [cim]: the mask generator moves every few steps, on the new images of their batches;
published, a number of times per epoch on batches of its own, exemplars among them.
Departs from [cim]: to the inner step the maps are data; released, its gradient goes through them.
Departs from [cim]: the rate of the inner step is constant; published, it follows the schedule.
Departs from [cim]: gradients of the mask generator are clipped to length 1 in all tasks; published,
to the root of 2 after the first, when there are two extractors.
Departs from [cim]: momentum starts again where boxes are found anew.
Departs from [cim]: outside the box a square is its mean; published, one of its pixels.
Chosen: the mask generator always learns from a softmax over the base's linear classifier, also
where the base predicts otherwise (means of `icarl`, corrected scores of `bic`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from remnant.errors import InputError
from remnant.images import ImageSet, Task
from remnant.memory import Candidate, KeptTensors
from remnant.memory.codecs.boxed import BoxedConfig
from remnant.memory.keeps import Keeps
from remnant.methods.activation_maps import activation_maps, blur, tight_boxes
from remnant.methods.backbones import BackboneConfig, residual_builder
from remnant.methods.base import MethodConfig, MethodContext
from remnant.methods.wa import WAConfig
from remnant.methods.wrapping import UNUSED, Wrapper, WrapperConfig
from remnant.models.rational import Rational
from remnant.models.resnet import ResNet
from remnant.phases import Batch, OptimizerConfig, Phase, Player, Reader, Terms


class CIMConfig(WrapperConfig):
    """Defaults are those of the release for ImageNet-Subset, where nothing else is said."""

    bases: ClassVar[tuple[str, ...]] = ("wa", "icarl", "er", "bic")

    name: Literal["cim"] = "cim"
    backbone: BackboneConfig = BackboneConfig()
    base: MethodConfig = WAConfig(first=UNUSED)
    threshold: float = Field(default=0.6, gt=0, lt=1)  # of the map, above which the box is drawn
    refresh_every_epochs: int = Field(default=40, ge=1)  # boxes of the new images
    compressed_step: float = Field(default=0.1, ge=0, le=1)  # more of them shown so each time
    # Chosen: 12 steps at 256 images are about the published 5 times per epoch of ten classes of
    # ImageNet.
    mask_every: int = Field(default=12, ge=1)
    mask_images: int = Field(default=16, ge=1)  # in the inner and in the outer level, at most
    mask_optimizer: OptimizerConfig = OptimizerConfig(
        name="adam", lr=0.01, weight_decay=5e-4, schedule="cosine", clip_norm=1.0
    )
    inner_lr: float = Field(default=0.01, gt=0)  # a tenth of the rate of the network
    mask_classify_weight: float = Field(default=0.2, ge=0)  # of the label of what is in the mask
    mask_size_weight: float = Field(default=0.1, ge=0)  # of how much the mask takes


class CIM(Wrapper[CIMConfig]):
    Config = CIMConfig
    needs_codec: ClassVar[str | None] = "boxed"
    has_own_views: ClassVar[bool] = True

    def __init__(self, config: CIMConfig, context: MethodContext) -> None:
        residual_builder(config.backbone, context.num_channels)  # refuses other networks
        super().__init__(config, context)
        codec = None if self.memory is None else self.memory.config.codec
        if not isinstance(codec, BoxedConfig):
            raise InputError(
                "cim stores boxes, so memory.codec must be boxed; got "
                f"{getattr(codec, 'name', None)}. Set memory.codec=boxed."
            )
        self.factor = codec.factor
        count = self._network.num_activations
        self.mask_generator = nn.ModuleList([Rational() for _ in range(count)])
        self.base.describe = self._describe
        self.base.herds_coded = True  # [cim]

    @property
    def _network(self) -> ResNet:
        network = self.base.backbone
        assert isinstance(network, ResNet), "others were refused"
        return network

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        """Those of the base; its training is cut where boxes are found anew."""
        for phase in self.base.phases(task, reader):
            if phase.name == "train":
                yield from self._cut(phase, task, reader)
            else:
                yield phase

    def _cut(self, phase: Phase, task: Task, reader: Reader) -> Iterator[Phase]:
        epochs, every = phase.schedule.epochs, self.config.refresh_every_epochs
        masks = list(self.mask_generator.parameters())
        optimizer, often = self.config.mask_optimizer, self.config.mask_every
        player = Player(masks, self._mask_loss, optimizer, every=often)
        cut = replace(phase, players=(*phase.players, player))
        for index, first in enumerate(range(0, epochs, every)):
            name = "train" if every >= epochs else f"train from epoch {first + 1}"
            part = replace(cut, name=name, epochs=(first, min(first + every, epochs)))
            if index > 0:
                ratio = min(1.0, index * self.config.compressed_step)
                part = replace(part, twins=self._compress(phase.data, reader), twin_ratio=ratio)
            yield part

    # ------------------------------------------------------------------------------ the two levels

    def _mask_loss(self, batch: Batch) -> Terms:
        """For the mask generator, on the new images of a batch: half in each of two levels."""
        new = torch.nonzero(~batch.is_replay).flatten()
        half = min(self.config.mask_images, len(new) // 2)
        if half == 0:
            flat = nn.utils.parameters_to_vector(self.mask_generator.parameters())
            return {"mask serve": 0 * flat.sum()}
        self.eval()  # batch statistics are those of training, which goes on afterwards
        inner, outer = batch.take(new[:half]), batch.take(new[half : 2 * half])
        terms = self._two_levels(inner, outer)
        self.train()
        return terms

    def _two_levels(self, inner: Batch, outer: Batch) -> Terms:
        """What the network makes of real images after a step on images blurred by their maps."""
        maps = self._maps(inner.views)
        rows = self.base.classifier.weight[inner.labels].detach()
        heat = activation_maps(maps, rows)  # [b, 1, h, w], 0 to 1
        mask = F.interpolate(heat, inner.views.shape[2:], mode="bilinear")
        hybrid = mask * inner.views + (1 - mask) * blur(inner.views, self.factor)
        network = self._step_on(replace(inner, views=hybrid))
        features = functional_call(self._network, network, (outer.views,))
        scores = self.base.classifier(maps.mean(dim=(2, 3)))
        config = self.config
        return {
            "mask serve": F.cross_entropy(self.base.classifier(features), outer.labels),
            "mask classify": config.mask_classify_weight * F.cross_entropy(scores, inner.labels),
            "mask size": config.mask_size_weight * heat.square().mean(),
        }

    def _step_on(self, batch: Batch) -> dict[str, Tensor]:
        """Weights of the extractor after a step of plain descent on the loss of the base."""
        weights = dict(self._network.named_parameters())
        loss = torch.stack(list(self.base.loss(batch).values())).sum()
        gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        return {
            name: weight.detach() - self.config.inner_lr * gradient
            for (name, weight), gradient in zip(weights.items(), gradients, strict=True)
        }

    def _maps(self, views: Tensor) -> Tensor:
        """The last maps of the network under learnable activations: [B, C, h, w].

        The network is held: compressed images are data to it, and pass no gradient on.
        """
        path = _MaskPath(self._network, self.mask_generator)
        names = self._network.named_parameters(prefix="network")
        return functional_call(path, {name: one.detach() for name, one in names}, (views,))

    # --------------------------------------------------------------------------------------- boxes

    def _boxes(self, label: int, views: Tensor) -> Tensor:
        """Where views show a class: top, left, height and width of each, int64 [B, 4]."""
        row = self.base.classifier.weight[label].expand(len(views), -1)
        heat = activation_maps(self._maps(views), row)
        mask = F.interpolate(heat, views.shape[2:], mode="bilinear")
        return tight_boxes(mask[:, 0] > self.config.threshold)

    @torch.no_grad()
    def _describe(self, images: Tensor, label: int, reader: Reader) -> Iterator[Candidate]:
        """Images that are offered to the memory, with their boxes."""
        boxes = self._boxes(label, reader.views(images)).tolist()
        for image, box in zip(images.numpy(), boxes, strict=True):
            yield _with_box(image, box)

    def _compress(self, images: ImageSet, reader: Reader) -> ImageSet | None:
        """Each of the new images as it would be stored with the box that it has now."""
        assert self.memory is not None, "the method keeps exemplars"
        boxes = torch.zeros(len(images), 4, dtype=torch.int64)
        for label in images.labels.unique().tolist():
            places = torch.nonzero(images.labels == label).flatten()
            boxes[places] = reader.apply(partial(self._boxes, label), images.select(places))
        pixels = (image for batch in reader.images(images) for image in batch.numpy())
        offered = (_with_box(*pair) for pair in zip(pixels, boxes.tolist(), strict=True))
        return self.memory.present(offered)

    def kept(self) -> list[Keeps]:
        return [*super().kept(), KeptTensors.of("mask_generator", self.mask_generator)]


class _MaskPath(nn.Module):
    """The network with other activations, as a module of its own."""

    def __init__(self, network: ResNet, activations: nn.ModuleList) -> None:
        super().__init__()
        self.network = network
        self.activations = activations

    def forward(self, views: Tensor) -> Tensor:
        return self.network.maps_through(views, list(self.activations))


def _with_box(image: np.ndarray, box: list[int]) -> Candidate:
    """A box without pixels stands for none: the codec then chooses."""
    top, left, height, width = box
    return Candidate(image, box=(top, left, height, width) if height else None)
