"""Nearest class mean on a frozen encoder: one mean per class, and nothing that can forget.

[ncm] Mensink et al., PAMI 2013; as a baseline of class-incremental learning with pretrained
networks, Janson et al., 2022.

The sums are whole numbers, so that any order of updates gives the same means, bit for bit.

Departs from [ncm]: the codes of a fifth of the images are kept. Compared with the means of the
others, they give the temperature of probabilities and the limit of what is unfamiliar.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from remnant.encoders import FrozenEncoder
from remnant.images import ImageSet, Task
from remnant.memory import Keeps, select
from remnant.methods.base import Method, MethodContext
from remnant.methods.feature_bank import FeatureBank, to_directions
from remnant.methods.frozen_features import FrozenConfig, TaskCodes, load_encoder
from remnant.methods.ridge import (
    choose_temperature,
    digest_codes,
    hold_out,
    least_of,
    unit_rows,
)
from remnant.models.classifier import append_rows
from remnant.models.precision import in_float32
from remnant.phases import Reader

# Chosen: so that an update of a store of ten thousand classes takes no gigabytes for its scores.
MOST_COMPARED = 1000  # images held out
Compared = tuple[np.ndarray, np.ndarray, list[int]]


class NCMConfig(FrozenConfig):
    name: Literal["ncm"] = "ncm"
    # Chosen: a cosine is divided by this before it is calibrated; the order of classes stays.
    temperature: float = Field(default=0.05, gt=0)


class NCM(Method[NCMConfig]):
    """Encoder, codes, sums of codes."""

    Config = NCMConfig
    trains = False
    takes_known_classes = True
    has_one_row_per_class = True
    forgets_exactly = True
    may_be_infinite = ("least_familiar",)  # nothing is unfamiliar without held-out images
    sums: Tensor
    held_sums: Tensor
    temperature: Tensor
    least_familiar: Tensor

    def __init__(self, config: NCMConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.encoder = FrozenEncoder(config.encoder)
        # int64 [K, D]; their lengths do not matter, so that no count is needed.
        self.register_buffer("sums", torch.zeros(0, self.encoder.width, dtype=torch.int64))
        self.register_buffer("held_sums", self.sums.clone())  # the part of images held out
        self.register_buffer("temperature", torch.ones(()))
        self.register_buffer("least_familiar", torch.full((), -torch.inf))
        self.bank = FeatureBank(self.encoder.width)  # of images held out
        self._codes: TaskCodes | None = None  # during `end_task` alone
        self._compared: Compared | None = None  # since the last change

    def begin_task(self, task: Task, reader: Reader) -> None:
        load_encoder(self.encoder, task, reader)
        super().begin_task(task, reader)

    def grow(self, task: Task) -> None:
        rows = self.sums.new_zeros(task.num_new_classes, self.sums.shape[1])
        self.sums = append_rows(self.sums, rows)
        self.held_sums = append_rows(self.held_sums, rows)
        self.bank.grow(task.num_new_classes)

    def features(self, views: Tensor) -> Tensor:
        return self.encoder(views)

    def predict(self, views: Tensor) -> Tensor:
        """Cosines to the means, whose softmax is calibrated on held-out images."""
        return self._calibrated(self._cosines(views))

    def recognise(self, views: Tensor) -> tuple[Tensor, Tensor]:
        cosines = self._cosines(views)
        return self._calibrated(cosines), cosines.amax(dim=1) >= self.least_familiar

    def _cosines(self, views: Tensor) -> Tensor:
        means = functional.normalize(self.sums.double(), dim=1).float()
        with in_float32(to_directions(self.features(views))) as directions:
            return functional.normalize(directions, dim=1) @ means.T

    def _calibrated(self, cosines: Tensor) -> Tensor:
        return cosines / self.config.temperature / self.temperature

    def end_task(self, task: Task, reader: Reader) -> None:
        self._codes = TaskCodes(self.encoder, task, reader)
        for label in (*task.new_labels, *task.known_labels):
            codes = self._codes.of_class(label)
            held = codes[torch.from_numpy(hold_out(codes.numpy()))]
            self.sums[label] += codes.sum(dim=0).to(self.sums.device)
            self.held_sums[label] += held.sum(dim=0).to(self.sums.device)
            self.bank.add(label, held)
        self._calibrate()
        self.remember(task, reader)
        self._codes = None

    def kept(self) -> list[Keeps]:
        return [*super().kept(), *([self.bank] if self.bank.num_classes else [])]

    def forget_class(self, label: int) -> None:
        is_kept = torch.arange(len(self.sums), device=self.sums.device) != label
        self.sums, self.held_sums = self.sums[is_kept], self.held_sums[is_kept]
        self.bank.remove(label)
        self._calibrate()

    def _calibrate(self) -> None:
        labels, cosines, _ = self._compared = self._compare()
        temperature, least = 1.0, -np.inf
        if len(labels):
            temperature = choose_temperature(cosines / self.config.temperature, labels)
            least = least_of(cosines.max(axis=1))
        self.temperature.fill_(temperature)
        self.least_familiar.fill_(least)

    def held_out(self) -> tuple[Tensor, Tensor] | None:
        """A fifth of the images, compared with the means of the others."""
        labels, cosines, order = self._compared or self._compare()
        self._compared = None  # many numbers, asked for once
        if len(labels) == 0:
            return None
        scores = self._calibrated(torch.from_numpy(cosines[:, np.argsort(order)]))
        return torch.from_numpy(np.array(order)[labels]), scores

    def _compare(self) -> Compared:
        """Classes [H] and cosines [H, K] of images held out, and the label of each class.

        The classes are in an order that does not depend on that of their labels, so that sums over
        them do not either. A class of which all images are held out has nothing to compare with. Of
        many images those are compared whose codes have the smallest digests, whenever they came.
        """
        rest = (self.sums - self.held_sums).cpu().numpy()
        order = sorted(range(len(rest)), key=lambda label: digest_codes(rest[label]))
        held = [self.bank.of_class(label) for label in order]
        held = [
            codes if rest[label].any() else codes[:0]
            for label, codes in zip(order, held, strict=True)
        ]
        rows = np.concatenate([np.empty((0, rest.shape[1]), np.int8), *held])
        labels = np.repeat(np.arange(len(order)), [len(codes) for codes in held])
        if len(rows) > MOST_COMPARED:
            ranks = np.argsort([digest_codes(row) for row in rows], kind="stable")
            chosen = np.sort(ranks[:MOST_COMPARED])
            rows, labels = rows[chosen], labels[chosen]
        return labels, unit_rows(rows) @ unit_rows(rest[order]).T, order

    def rank_exemplars(self, images: ImageSet, label: int, count: int, reader: Reader) -> Tensor:
        assert self._codes is not None, "exemplars are chosen at the end of a task"
        assert self.memory is not None, "only a method with a memory ranks exemplars"
        codes = self._codes.of_class(label).float()
        return select(
            self.memory.config.selection, codes, count, reader.generator("selection", label)
        )
