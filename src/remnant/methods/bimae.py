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
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from remnant.images import ImageSet, Task
from remnant.losses import distillation_loss
from remnant.memory.keeps import Keeps, KeptTensors
from remnant.methods.base import Method, MethodContext
from remnant.methods.bimae_config import (
    BilateralConfig,
    BiMAEConfig,
    build_network,
    check_memory,
    check_options,
)
from remnant.methods.coded_twins import coded_twins
from remnant.methods.logit_adjustment import LogitAdjustment
from remnant.methods.redrawing import complete_set, draw_pictures, redrawing_terms
from remnant.methods.teacher import Frozen, frozen_copy
from remnant.methods.weight_average import WeightAverage
from remnant.methods.windows import cut_windows, window_size
from remnant.models.classifier import align_new_rows
from remnant.models.masked_autoencoder import is_hidden, patch_grid, visible_ids_of
from remnant.models.masked_network import Encoded, MaskedNetwork
from remnant.phases import Batch, Phase, Reader, Schedule, Terms

__all__ = ["BiMAE", "BiMAEConfig", "BilateralConfig"]


class BiMAE(Method[BiMAEConfig]):
    Config = BiMAEConfig
    corrects_prior: ClassVar[bool] = True
    takes_known_classes: ClassVar[bool] = True
    has_one_row_per_class: ClassVar[bool] = True

    def __init__(self, config: BiMAEConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.network = build_network(config, context.image_shape)
        check_options(config, self.network.num_patches)
        check_memory(config, context.memory)
        classifier = self.network.classifier
        self._adjustment = LogitAdjustment(classifier, config.logit_adjustment, config)
        is_partial = context.memory is not None and context.memory.codec.is_partial
        is_masked_at_times = 0 < config.side_ratio < 1 or is_partial
        is_redrawn_at_times = config.has_detail_branch and config.decoded_ratio < 1
        self.may_skip_passes = (
            config.network.encoder == "conv"
            and config.view == "full"
            and (is_masked_at_times or is_redrawn_at_times)
        )
        self._window: tuple[int, int] | None = None  # height and width, while a task has windows
        self._image_shape = context.image_shape
        self.teacher: Frozen[MaskedNetwork] | None = None
        self.average: WeightAverage | None = None  # while a phase lasts
        self.completed: ImageSet | None = None  # the memory as it is replayed in this task
        self.twins: ImageSet | None = None  # the new images as they would be replayed

    # -------------------------------------------------------------------------------- the six verbs

    def begin_task(self, task: Task, reader: Reader) -> None:
        self._adjustment.undo()
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
        num_exemplars = 0 if self.completed is None else len(self.completed)
        self._window = self._window_of(task, num_exemplars)
        schedule = self.config.schedule_with(task, num_exemplars)
        every = self.config.refresh_every_epochs or schedule.epochs
        if self.completed is None:
            every = schedule.epochs  # nothing to refresh: one phase, one optimiser
        if self.config.average_decay > 0:
            self.average = WeightAverage(self.network, self.config.average_decay)
        for first in range(0, schedule.epochs, every):
            if first > 0:
                self.completed = self.complete_memory(reader)
                self.twins = self._present(task.train, reader)
            last = min(first + every, schedule.epochs)
            name = "train" if every >= schedule.epochs else f"train from epoch {first + 1}"
            part = None if every >= schedule.epochs else (first, last)
            yield self._phase(name, task, schedule, part)
        if self.average is not None:
            self.average.put_into(self.network)
            self.average = None
        if self.config.align_weights and task.index > 0:
            align_new_rows(self.network.classifier, task.num_old_classes)
        if self.config.balanced_tuning is not None and task.index > 0:
            tune = self.phase(
                "tune",
                task.train,
                self.config.balanced_tuning.model_copy(update={"sampling": "balanced"}),
                replay=self.completed,
                parameters=self.network.classifier.parameters(),
                loss=self._tune,
            )
            # Whole: cropped as the new images are.
            ratio = self.config.twin_ratio
            yield replace(tune, partial_view_ratio=0.0, twins=self.twins, twin_ratio=ratio)
        self._adjustment.apply(task, self.completed)

    def _window_of(self, task: Task, num_exemplars: int) -> tuple[int, int] | None:
        """Height and width of the windows that a task is learned through; None: it has none."""
        if not self.config.sees_windows(task, num_exemplars):
            return None
        patch_size, mask_ratio = self.config.network.patch_size, self.config.mask_ratio
        return window_size(self._image_shape, patch_size, mask_ratio)

    def loss(self, batch: Batch) -> Terms:
        """[bimae] E8, and the terms beyond it."""
        if self.config.view == "full":
            return self._learn_full_views(batch)
        if self._is_unmasked(batch.step, batch.num_steps):
            return self._classify_whole(batch)
        if self.config.view == "window":
            return self._classify_whole(self._through_window(batch))
        visible_ids = self._choose_patches(batch)
        encoded = self.network.encode(batch.views, visible_ids)  # [bimae] E1
        scores = self.network.classify(self.network.pool(encoded))  # [bimae] E2
        terms = self._classify(batch, batch.labels, scores, self._ask(batch.views, visible_ids))
        if self.config.reconstruction != "off":
            known = torch.nonzero(_is_whole(batch)).flatten()
            terms |= self._reconstruct(batch, encoded, known)
        return terms

    def predict(self, views: Tensor) -> Tensor:
        return self.network.scores(views)

    def features(self, views: Tensor) -> Tensor:
        return self.network.features(views)

    def kept(self) -> list[Keeps]:
        """The decoder beside the memory: it completes exemplars, but predicts nothing."""
        decoder = self.network.decoder
        return super().kept() + ([] if decoder is None else [KeptTensors.of("decoder", decoder)])

    # ----------------------------------------------------------------------------------- loss terms

    def _choose_patches(self, batch: Batch) -> Tensor:
        """Random patches of whole images, the stored patches of exact views: ids [B, V]."""
        noise = batch.draw("mask", self.network.num_patches)
        if batch.is_known is not None:
            noise = noise.masked_fill(~batch.is_known.flatten(1), 2.0)  # behind all that is known
        return self.network.visible_ids(noise, self.config.mask_ratio)

    def shown_patches(self, batch: Batch) -> Tensor | None:
        """See `SeesParts`."""
        if self.config.view == "window" or self._is_unmasked(batch.step, batch.num_steps):
            return None  # windows are cut from all images alike, which are known whole
        is_shown = ~is_hidden(self._choose_patches(batch), self.network.num_patches)
        if self.config.view == "full":
            is_shown |= _is_whole(batch)[:, None]
        return is_shown.unflatten(1, patch_grid(self._image_shape, self.config.network.patch_size))

    def predict_parts(self, views: Tensor, is_known: Tensor) -> Tensor:
        """See `SeesParts`."""
        return self.network.masked_scores(views, visible_ids_of(~is_known.flatten(1)))

    @torch.no_grad()
    def _ask(self, views: Tensor, visible_ids: Tensor | None) -> Tensor | None:
        """What the teacher says: scores [B, K_old]."""
        if self.teacher is None:
            return None
        return self.teacher.network.masked_scores(views, visible_ids)

    def _classify(self, batch: Batch, labels: Tensor, scores: Tensor, old: Tensor | None) -> Terms:
        config = self.config
        corrected, smoothing = batch.corrected(scores), config.label_smoothing
        classify = F.cross_entropy(corrected, labels, label_smoothing=smoothing)
        terms = {"classify": config.classify_weight * classify}
        if old is not None:
            weight, num_old = self.config.distill_weight, old.shape[1]
            if config.view != "masked":
                weight *= num_old / scores.shape[1]
            temperature = config.distill_temperature
            terms["distill"] = weight * distillation_loss(scores[:, :num_old], old, temperature)
        return terms

    def _classify_whole(self, batch: Batch) -> Terms:
        scores = self.network.scores(batch.views)
        return self._classify(batch, batch.labels, scores, self._ask(batch.views, None))

    def _tune(self, batch: Batch) -> Terms:
        self.network.eval()  # batch statistics stay those of the weights, which do not move
        return self._classify_whole(batch)

    def _through_window(self, batch: Batch) -> Batch:
        if self._window is None:  # too few exemplars, see `_window_of`
            return batch
        return replace(batch, views=cut_windows(batch.views, self._window, batch.draw("window", 2)))

    def _reconstruct(self, batch: Batch, encoded: Encoded, rows: Tensor) -> Terms:
        """Reconstruction and detail loss of the images `rows`, which are known whole.

        Chosen: an exact view gives no target, since most of its pixels are unknown, so it counts
        in the classification alone; the mean is still over all images of the batch. So is that of
        a share of the images (`decoded_ratio`), which stand for those that are not decoded.
        """
        if len(encoded.main) > len(rows):
            encoded = encoded.select(rows)
        if self.config.decoded_ratio < 1:  # else nothing is drawn, and no device is waited for
            chosen = torch.nonzero(self._is_decoded(batch)[rows]).flatten()
            if len(chosen) < len(rows):
                encoded, rows = encoded.select(chosen), rows[chosen]
        if len(rows) == 0:
            names = ["reconstruct", *(["detail"] if self.config.has_detail_branch else [])]
            return dict.fromkeys(names, batch.views.new_zeros(()))
        views, noise = batch.views, batch.draw("fine mask", 2, self.network.num_patches)
        weight = len(rows) / (self.config.decoded_ratio * len(views))
        if len(rows) < len(views):
            views, noise = views[rows], noise[rows]
        terms = redrawing_terms(self.network, self.config, views, encoded, noise)
        return {name: weight * term for name, term in terms.items()}

    def _is_decoded(self, batch: Batch) -> Tensor:
        """Which images are redrawn if they are seen masked: bool [B]."""
        return batch.draw("decode") < self.config.decoded_ratio

    def _is_unmasked(self, step: int, num_steps: int) -> bool:
        ratio = Decimal(str(self.config.unmasked_ratio))  # 0.7 of 10 steps are 7, not 6
        if self.config.view == "window":  # at least one: tests show whole images
            return step >= num_steps - max(1, int(num_steps * ratio))
        if self.config.unmasked_placement == "end":
            return step >= num_steps - int(num_steps * ratio)
        return int((step + 1) * ratio) > int(step * ratio)

    def _learn_full_views(self, batch: Batch) -> Terms:
        """Whole images are classified whole, exact views by what was stored of them.

        A whole image seen masked learns what the network says of it as a whole, as in MaskSub
        (Heo et al., CVPR 2025): its label is too hard a lesson where most of it is hidden.
        """
        network, is_whole, is_side = self.network, _is_whole(batch), self._is_side(batch)
        whole, exact, side = (x.nonzero().flatten() for x in (is_whole, ~is_whole, is_side))
        patches, in_part = self._choose_patches(batch), torch.cat([side, exact])
        answers, teacher_scores = [], []  # to what is classified: whole images, then exact views
        if len(whole) > 0:
            answers.append(network.scores(batch.views[whole]))
            teacher_scores.append(self._ask(batch.views[whole], None))
        encoded = None
        if len(in_part) > 0:
            # One pass for both: batch statistics must not tell exemplars from new images.
            encoded = network.encode(batch.views[in_part], patches[in_part])
        if len(exact) > 0 and encoded is not None:
            rows = torch.arange(len(side), len(in_part), device=exact.device)
            answers.append(network.classify(network.pool(encoded.select(rows))))
            teacher_scores.append(self._ask(batch.views[exact], patches[exact]))
        old = None
        if self.teacher:
            old = torch.cat([scores for scores in teacher_scores if scores is not None])
        labels = batch.labels[torch.cat([whole, exact])]
        terms = self._classify(batch, labels, torch.cat(answers), old)
        if len(side) > 0 and encoded is not None:
            masked = encoded.select(torch.arange(len(side), device=side.device))
            terms |= self._learn_masked(batch, side, masked, answers[0][is_side[whole]])
        return terms

    def _is_side(self, batch: Batch) -> Tensor:
        """Which images are seen masked as well: bool [B]."""
        return _is_whole(batch) & (batch.draw("side") < self.config.side_ratio)

    def row_kinds(self, batch: Batch) -> Tensor:
        """See `TellsRows`."""
        kinds = self._is_decoded(batch).long()
        if self.config.view == "full":
            return torch.where(self._is_side(batch), kinds + 1, 0)
        return kinds

    def _learn_masked(self, batch: Batch, rows: Tensor, masked: Encoded, scores: Tensor) -> Terms:
        """What the images `rows` of the batch learn masked, given their `scores` as a whole."""
        said = self.network.classify(self.network.pool(masked))
        share = len(rows) / len(batch.labels)
        unlike = F.cross_entropy(said, scores.detach().softmax(dim=1))
        terms = {"side": self.config.side_weight * share * unlike}
        if self.config.reconstruction != "off":
            terms |= self._reconstruct(batch, masked, rows)
        return terms

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
        if stored.is_known is None or not self.completes:
            return stored
        completed = complete_set(self.network, stored, reader)
        return completed if self.config.exact_view_ratio > 0 else replace(completed, is_known=None)

    @property
    def completes(self) -> bool:
        return self.config.generate_replay and self.config.reconstruction != "off"

    def complete(self, stored: ImageSet, reader: Reader) -> ImageSet:
        """See `Completes`."""
        return self._complete(stored, reader)

    def _present(self, new: ImageSet, reader: Reader) -> ImageSet | None:
        """The new images as the memory would give them back; None where they are not shown so."""
        twins = coded_twins(self.memory, new, reader) if self.config.twin_ratio > 0 else None
        return None if twins is None else self._complete(twins, reader)

    def redraw(self, images: Tensor, reader: Reader) -> dict[str, Tensor] | None:
        """See `Draws.redraw`."""
        if self.config.reconstruction == "off":
            return None
        return draw_pictures(self.network, self.config, images, reader)

    def _phase(
        self, name: str, task: Task, schedule: Schedule, epochs: tuple[int, int] | None
    ) -> Phase:
        ratio = self.config.exact_view_ratio if self.config.generate_replay else 1.0
        whole = self.phase(name, task.train, schedule, replay=self.completed)
        players = whole.players
        if self.average is not None:
            players = tuple(replace(player, after_step=self._average) for player in players)
        return replace(
            whole,
            players=players,
            partial_view_ratio=ratio,
            aligns_new=self.config.presentation == "symmetric",
            twins=self.twins,
            twin_ratio=self.config.twin_ratio,
            is_whole_step=self._is_unmasked,
            epochs=epochs,
        )

    def _average(self) -> None:
        assert self.average is not None, "weights are averaged while a phase lasts"
        self.average.update(self.network)


def _is_whole(batch: Batch) -> Tensor:
    """Which images are known whole: bool [B]."""
    if batch.is_known is None:
        return torch.ones_like(batch.is_replay)
    return batch.is_known.flatten(1).all(dim=1)
