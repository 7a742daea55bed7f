"""Bilateral MAE: classify and reconstruct masked images; remember images by a quarter of them.

[bimae] Zhai et al., ICCV 2023. Equations E1 to E8 in docs/methods/bimae.md.

A masked autoencoder learns to classify an image and to redraw it from some of its patches. The
memory keeps only those patches; at the start of a task the network of the task before completes
every exemplar, and the completions are replayed. A detail branch adds what the main branch blurs.

Departs from [bimae]: where r = r1, the main reconstruction serves as x1 (`reuse_main_as_x1`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from remnant.errors import InputError
from remnant.images import ArrayImages, ImageSet, Task, count_visible, patches_to_pixels
from remnant.losses import detail_loss, distillation_loss, reconstruction_loss
from remnant.memory import Memory
from remnant.memory.keeps import Keeps, KeptTensors
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.partial_exemplars import require_patches
from remnant.methods.teacher import Frozen, frozen_copy
from remnant.models.bilateral import BilateralMAE
from remnant.models.classifier import align_new_rows
from remnant.models.masked_autoencoder import is_hidden, visible_ids_of
from remnant.phases import Batch, Phase, Reader, Schedule, Terms
from remnant.settings import Settings

_COMPLETED_AT_ONCE = 256


class BilateralConfig(Settings):
    """The network; defaults are the paper's."""

    patch_size: int = Field(default=4, ge=1)
    width: int = Field(default=384, ge=4, multiple_of=4)
    depth: int = Field(default=5, ge=1)
    head_width: int = Field(default=32, ge=1)
    mlp_width: int = Field(default=1536, ge=1)  # encoder and decoder blocks
    fusion_mlp_width: int = Field(default=1536, ge=1)
    cutoff: float = Field(default=0.25, ge=0, lt=0.5)  # of M, in cycles per pixel
    frequency_per: Literal["image", "patch"] = "image"  # what M transforms as one piece


class BiMAEConfig(MethodConfig):
    """The paper's method; the last group goes beyond it and is off by default."""

    name: Literal["bimae"] = "bimae"
    network: BilateralConfig = BilateralConfig()

    mask_ratio: float = Field(default=0.75, ge=0, lt=1)  # r
    coarse_mask_ratio: float = Field(default=0.75, ge=0, lt=1)  # r1
    fine_mask_ratio: float = Field(default=0.40, ge=0, lt=1)  # r2
    classify_weight: float = Field(default=0.01, ge=0)
    reconstruct_weight: float = Field(default=1.0, ge=0)
    detail_weight: float = Field(default=1.0, ge=0)

    # Ablations of the paper.
    generate_replay: bool = True  # off: hidden patches of exemplars are filled with a plain colour
    # "decoder": the decoder learns to redraw, but the encoder gets no gradient from it
    reconstruction: Literal["on", "decoder", "off"] = "on"
    has_detail_branch: bool = True
    detail_domain: Literal["frequency", "spatial"] = "frequency"
    reuse_main_as_x1: bool = True  # where r = r1

    # Beyond the paper.
    exact_view_ratio: float = Field(default=0.0, ge=0, le=1)  # exemplars by stored patches alone
    # "symmetric": new images look in training as exemplars do, cropped, coded and completed as
    # often, so that no network can tell old classes from new ones by their looks.
    presentation: Literal["published", "symmetric"] = "published"
    distill_weight: float = Field(default=0.0, ge=0)
    distill_temperature: float = Field(default=2.0, gt=0)
    align_weights: bool = False
    balanced_tuning: Schedule | None = None  # of the classifier alone, after each later task
    refresh_every_epochs: int | None = Field(default=None, ge=1)  # completions by the current net
    unmasked_ratio: float = Field(default=0.0, ge=0, le=1)  # steps that classify whole images
    unmasked_placement: Literal["spread", "end"] = "end"


class BiMAE(Method[BiMAEConfig]):
    Config = BiMAEConfig
    corrects_prior: ClassVar[bool] = True
    takes_known_classes: ClassVar[bool] = True
    has_one_row_per_class: ClassVar[bool] = True

    def __init__(self, config: BiMAEConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        network = config.network
        try:
            self.network = BilateralMAE(
                image_shape=context.image_shape,
                has_detail_branch=config.has_detail_branch,
                **network.model_dump(),
            )
        except ValueError as error:
            raise InputError(f"method.network: {error}") from None
        self._check_ratios()
        self._check_memory(context.memory)
        self.teacher: Frozen[BilateralMAE] | None = None
        self.completed: ImageSet | None = None  # the memory as it is replayed in this task
        self.twins: ImageSet | None = None  # the new images as they would be replayed

    def _check_ratios(self) -> None:
        for name in ("mask_ratio", "coarse_mask_ratio", "fine_mask_ratio"):
            ratio = getattr(self.config, name)
            if count_visible(self.network.num_patches, ratio) == 0:
                raise InputError(
                    f"method.{name} must leave at least one of {self.network.num_patches} patches "
                    f"visible; got {ratio}. Lower it."
                )

    def _check_memory(self, memory: Memory | None) -> None:
        config = self.config
        shows_stored_alone = config.exact_view_ratio > 0 or not config.generate_replay
        is_partial = memory is not None and memory.codec.is_partial
        if not is_partial and not shows_stored_alone:
            return
        needy = "method.exact_view_ratio and method.generate_replay are"
        codec = require_patches(memory, config.network.patch_size, needy)
        shows_whole = config.unmasked_ratio > 0 or config.balanced_tuning is not None
        if not config.generate_replay and shows_whole:
            raise InputError(
                "without completions no exemplar can be shown whole. Set method.generate_replay to "
                "true, or method.unmasked_ratio to 0 and method.balanced_tuning to none."
            )
        needs_completions = config.generate_replay and (config.exact_view_ratio < 1 or shows_whole)
        if needs_completions and config.reconstruction == "off":
            raise InputError(
                "completing exemplars needs a decoder that learns. Set method.reconstruction to on "
                "or decoder, or memory.codec to raw."
            )
        if shows_stored_alone and codec.config.mask_ratio > config.mask_ratio:
            raise InputError(
                "an exact view shows what was stored, so memory.codec.mask_ratio must not exceed "
                f"method.mask_ratio; got {codec.config.mask_ratio} and {config.mask_ratio}."
            )

    # -------------------------------------------------------------------------------- the six verbs

    def begin_task(self, task: Task, reader: Reader) -> None:
        # By the network of the task before.
        self.completed = self.complete_memory(reader)
        self.twins = self._present(task.train, reader)
        is_distilling = self.config.distill_weight > 0 and task.index > 0
        self.teacher = frozen_copy(self.network) if is_distilling else None
        self.grow(task)

    def grow(self, task: Task) -> None:
        if task.num_new_classes > 0:
            self.network.classifier.grow(task.num_new_classes)

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        schedule = self.config.schedule(task)
        every = self.config.refresh_every_epochs or schedule.epochs
        if self.completed is None:
            every = schedule.epochs  # nothing to refresh: one phase, one optimiser
        for first in range(0, schedule.epochs, every):
            if first > 0:
                self.completed = self.complete_memory(reader)
                self.twins = self._present(task.train, reader)
            last = min(first + every, schedule.epochs)
            name = "train" if every >= schedule.epochs else f"train from epoch {first + 1}"
            yield self._phase(name, task, schedule, (first, last))
        if self.config.align_weights and task.index > 0:
            align_new_rows(self.network.classifier, task.num_old_classes)
        if self.config.balanced_tuning is not None and task.index > 0:
            tune = self.phase(
                "tune",
                task.train,
                self.config.balanced_tuning.model_copy(update={"sampling": "balanced"}),
                replay=self.completed,
                parameters=self.network.classifier.parameters(),
                loss=self._classify_whole,
            )
            # Whole: cropped as the new images are.
            yield replace(tune, partial_view_ratio=0.0, twins=self.twins)

    def loss(self, batch: Batch) -> Terms:
        """[bimae] E8, and the terms beyond it."""
        if self._is_unmasked(batch.step, batch.num_steps):
            return self._classify_whole(batch)
        network, config = self.network, self.config
        visible_ids = self._choose_patches(batch)
        first = network.encode_first(batch.views, visible_ids)  # [bimae] E1
        main = network.encode_rest(first)  # [B, V+1, D]
        detail = network.detail(first) if config.has_detail_branch else None
        scores = network.classify(network.fuse(main, detail))  # [bimae] E2
        terms = self._classify(batch, scores, visible_ids)
        if config.reconstruction != "off":
            terms |= self._reconstruct(batch, visible_ids, main, detail)
        return terms

    def predict(self, views: Tensor) -> Tensor:
        return self.network.scores(views)

    def features(self, views: Tensor) -> Tensor:
        return self.network.features(views)

    def kept(self) -> list[Keeps]:
        """The decoder beside the memory: it completes exemplars, but predicts nothing."""
        return [*super().kept(), KeptTensors.of("decoder", self.network.decoder)]

    # ----------------------------------------------------------------------------------- loss terms

    def _choose_patches(self, batch: Batch) -> Tensor:
        """Random patches of whole images, the stored patches of exact views: ids [B, V]."""
        noise = batch.draw("mask", self.network.num_patches)
        if batch.is_known is not None:
            noise = noise.masked_fill(~batch.is_known.flatten(1), 2.0)  # behind all that is known
        return self.network.visible_ids(noise, self.config.mask_ratio)

    def shown_patches(self, batch: Batch) -> Tensor | None:
        """See `SeesParts`."""
        if self._is_unmasked(batch.step, batch.num_steps):
            return None
        hidden = is_hidden(self._choose_patches(batch), self.network.num_patches)
        return ~hidden.unflatten(1, self._grid)

    def predict_parts(self, views: Tensor, is_known: Tensor) -> Tensor:
        """See `SeesParts`."""
        return _masked_scores(self.network, views, visible_ids_of(~is_known.flatten(1)))

    @property
    def _grid(self) -> tuple[int, int]:
        height, width = self.network.decoder.image_shape[:2]
        side = self.config.network.patch_size
        return height // side, width // side

    def _classify(self, batch: Batch, scores: Tensor, visible_ids: Tensor | None) -> Terms:
        classify = F.cross_entropy(batch.corrected(scores), batch.labels)
        terms = {"classify": self.config.classify_weight * classify}
        if self.teacher is not None:
            with torch.no_grad():
                old = _masked_scores(self.teacher.network, batch.views, visible_ids)
            terms["distill"] = self.config.distill_weight * distillation_loss(
                scores[:, : old.shape[1]], old, self.config.distill_temperature
            )
        return terms

    def _classify_whole(self, batch: Batch) -> Terms:
        return self._classify(batch, self.network.scores(batch.views), None)

    def _reconstruct(
        self, batch: Batch, visible_ids: Tensor, main: Tensor, detail: Tensor | None
    ) -> Terms:
        """Reconstruction and detail loss, over the images that are known whole.

        Chosen: an exact view gives no target, since most of its pixels are unknown, so it counts
        in the classification alone; the mean is still over all images of the batch.
        """
        network, config = self.network, self.config
        views, noise = batch.views, batch.draw("fine mask", 2, network.num_patches)
        share = 1.0
        if batch.is_known is not None:
            rows = torch.nonzero(batch.is_known.flatten(1).all(dim=1)).flatten()
            share = len(rows) / len(views)
            views, noise, visible_ids, main = (x[rows] for x in (views, noise, visible_ids, main))
            detail = None if detail is None else detail[rows]
            if share == 0:
                nothing = views.new_zeros(())
                return {"reconstruct": nothing} | ({} if detail is None else {"detail": nothing})
        if config.reconstruction == "decoder":
            main, detail = main.detach(), None if detail is None else detail.detach()
        if detail is None:
            completed = network.decode(main, visible_ids)  # [bimae] E3
            return self._weigh(share, reconstruct=reconstruction_loss(completed, views))
        coarse, fine = network.decode_both(main, detail, visible_ids)  # [bimae] E3
        spectrum = network.high_pass(fine)
        completed = coarse + network.inverse(spectrum)  # [bimae] E4, E5
        residual = self._residual(views, coarse.detach(), noise)
        if config.detail_domain == "frequency":
            difference = detail_loss(spectrum, network.high_pass(residual))  # [bimae] E7
        else:
            # Chosen: M is left out of the loss; the completion keeps it (E4).
            difference = detail_loss(fine, residual)
        return self._weigh(
            share, reconstruct=reconstruction_loss(completed, views), detail=difference
        )

    @torch.no_grad()
    def _residual(self, views: Tensor, coarse: Tensor, noise: Tensor) -> Tensor:
        """x2 - x1, what seeing more patches adds to the main reconstruction."""
        config = self.config
        fine = self._redraw(views, noise[:, 0], config.fine_mask_ratio)  # [bimae] E6
        if config.reuse_main_as_x1 and config.mask_ratio == config.coarse_mask_ratio:
            return fine - coarse
        return fine - self._redraw(views, noise[:, 1], config.coarse_mask_ratio)

    def _redraw(self, views: Tensor, noise: Tensor, mask_ratio: float) -> Tensor:
        visible_ids = self.network.visible_ids(noise, mask_ratio)
        first = self.network.encode_first(views, visible_ids)
        return self.network.decode(self.network.encode_rest(first), visible_ids)

    def _weigh(self, share: float, *, reconstruct: Tensor, detail: Tensor | None = None) -> Terms:
        terms = {"reconstruct": self.config.reconstruct_weight * share * reconstruct}
        if detail is not None:
            terms["detail"] = self.config.detail_weight * share * detail
        return terms

    def _is_unmasked(self, step: int, num_steps: int) -> bool:
        ratio = Decimal(str(self.config.unmasked_ratio))  # 0.7 of 10 steps are 7, not 6
        if self.config.unmasked_placement == "end":
            return step >= num_steps - int(num_steps * ratio)
        return int((step + 1) * ratio) > int(step * ratio)

    # --------------------------------------------------------------------------------------- replay

    @property
    def working_bytes(self) -> int:
        held = [one for one in (self.completed, self.twins) if one is not None]
        return sum(len(one) * math.prod(one.images.shape) for one in held)

    def complete_memory(self, reader: Reader) -> ImageSet | None:
        """The exemplars, completed by this network; stored pixels stay unchanged.

        With exact views the set also says which patches were stored.
        """
        stored = self.replay()
        return None if stored is None else self._complete(stored, reader)

    def _complete(self, stored: ImageSet, reader: Reader) -> ImageSet:
        if stored.is_known is None or not self.config.generate_replay:
            return stored
        completed = torch.cat(
            [
                complete_images(
                    self.network, stored.images.read(rows), stored.is_known[rows], reader
                )
                for rows in torch.arange(len(stored)).split(_COMPLETED_AT_ONCE)
            ]
        )
        known = stored.is_known if self.config.exact_view_ratio > 0 else None
        return replace(stored, images=ArrayImages(completed), is_known=known)

    @property
    def completes(self) -> bool:
        return self.config.generate_replay and self.config.reconstruction != "off"

    def complete(self, stored: ImageSet, reader: Reader) -> ImageSet:
        """See `Completes`."""
        return self._complete(stored, reader)

    def _present(self, new: ImageSet, reader: Reader) -> ImageSet | None:
        """The new images as the memory would give them back; None where they are not shown so."""
        if self.config.presentation == "published" or self.completed is None:
            return None
        assert self.memory is not None, "only a memory gives completions"
        images = (image for batch in reader.images(new) for image in batch.numpy())
        stored = self.memory.present(images)
        return None if stored is None else self._complete(stored, reader)

    @torch.no_grad()
    def redraw(self, images: Tensor, reader: Reader) -> dict[str, Tensor] | None:
        """See `Draws.redraw`; the patches seen are the same after every task."""
        if self.config.reconstruction == "off":
            return None
        network, views = self.network, reader.views(images)
        rng = reader.generator("pictures")
        noise = torch.rand(len(images), 3, network.num_patches, generator=rng).to(views.device)
        visible_ids = network.visible_ids(noise[:, 0], self.config.mask_ratio)
        first = network.encode_first(views, visible_ids)
        coarse = network.decode(network.encode_rest(first), visible_ids)
        hidden = self._hide(images, visible_ids)
        if not self.config.has_detail_branch:
            return {"visible": hidden, "main": reader.to_images(coarse)}
        fine = network.decode(network.detail(first), visible_ids)
        detail = network.inverse(network.high_pass(fine))
        seen_less = coarse
        if self.config.coarse_mask_ratio != self.config.mask_ratio:
            seen_less = self._redraw(views, noise[:, 2], self.config.coarse_mask_ratio)
        seen_more = self._redraw(views, noise[:, 1], self.config.fine_mask_ratio)
        drawn = {
            "both": coarse + detail,
            "main": coarse,
            "detail": detail,
            "coarse": seen_less,
            "fine": seen_more,
            "difference": seen_more - seen_less,
            "high": network.inverse(network.high_pass(seen_more - seen_less)),
        }
        return {"visible": hidden} | {name: reader.to_images(x) for name, x in drawn.items()}

    def _hide(self, images: Tensor, visible_ids: Tensor) -> Tensor:
        """Images with their hidden patches in grey."""
        height, width = images.shape[1:3]
        grid = (height // self.config.network.patch_size, -1)
        hidden = is_hidden(visible_ids.cpu(), self.network.num_patches).unflatten(1, grid)
        return images.masked_fill(patches_to_pixels(hidden, (height, width))[..., None], 128)

    def _phase(self, name: str, task: Task, schedule: Schedule, epochs: tuple[int, int]) -> Phase:
        ratio = self.config.exact_view_ratio if self.config.generate_replay else 1.0
        whole = self.phase(name, task.train, schedule, replay=self.completed)
        return replace(
            whole,
            partial_view_ratio=ratio,
            fixes_new=self.config.presentation == "symmetric",
            twins=self.twins,
            is_whole_step=self._is_unmasked,
            epochs=epochs,
        )


@torch.no_grad()
def complete_images(network: BilateralMAE, images: Tensor, known: Tensor, reader: Reader) -> Tensor:
    """Images uint8 [n, H, W, C] with the patches that are not `known` [n, GH, GW] drawn by E5."""
    visible_ids = visible_ids_of(~known.flatten(1))
    views = reader.views(images)
    completed = reader.to_images(network.complete(views, visible_ids.to(views.device)))
    height, width = images.shape[1:3]
    is_stored = patches_to_pixels(known, (height, width))
    return torch.where(is_stored[..., None], images, completed)


def _masked_scores(network: BilateralMAE, views: Tensor, visible_ids: Tensor | None) -> Tensor:
    first = network.encode_first(views, visible_ids)
    detail = network.detail(first) if network.has_detail_branch else None
    return network.classify(network.fuse(network.encode_rest(first), detail))
