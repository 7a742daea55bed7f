"""RanPAC: ridge regression on randomly projected features of a frozen encoder.

[ranpac] McDonnell et al., NeurIPS 2023.

Nothing is trained by gradients, so nothing is forgotten: the classifier is a function of the
features of all images seen, whatever the order in which they came. Removing a class removes its
features, and leaves the classifier that never saw it, bit for bit.

Departs from [ranpac]: the features of each image are kept, a byte per number, in place of the sum
of their products. They are fewer bytes below ten thousand images, and a class can be taken out.
Departs from [ranpac]: the projection is of signs, which are the same on every machine and for
every seed, so that it is not stored.
Departs from [ranpac]: 2,000 projected features (10,000 there), and every class counts alike,
however many images it has.
Departs from [ranpac]: the encoder is not adapted to the first task.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from remnant.encoders import FrozenEncoder
from remnant.images import Task
from remnant.memory import Candidate, Keeps, select
from remnant.methods.base import Method, MethodContext
from remnant.methods.feature_bank import FeatureBank, to_directions
from remnant.methods.frozen_features import FrozenConfig, TaskCodes, load_encoder
from remnant.methods.ridge import RidgeFit, fit_ridge
from remnant.models.classifier import LinearClassifier, append_rows
from remnant.models.precision import in_float32
from remnant.phases import Reader
from remnant.randomness import generator


class RanPACConfig(FrozenConfig):
    name: Literal["ranpac"] = "ranpac"
    num_projected: int = Field(default=2000, ge=1, le=32_768)  # [ranpac] M


class RanPAC(Method[RanPACConfig]):
    """Encoder, codes, projection, ridge regression."""

    Config = RanPACConfig
    trains = False
    takes_known_classes = True
    has_one_row_per_class = True
    forgets_exactly = True
    may_be_infinite = ("least_familiar",)  # nothing is unfamiliar without held-out images
    projection: Tensor
    temperature: Tensor
    means: Tensor
    least_familiar: Tensor

    def __init__(self, config: RanPACConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.encoder = FrozenEncoder(config.encoder)
        self.classifier = LinearClassifier(config.num_projected, bias=False)
        self.classifier.requires_grad_(False)
        self.register_buffer("temperature", torch.ones(()))
        self.register_buffer("means", torch.zeros(0, self.encoder.width))  # [K, D]
        self.register_buffer("least_familiar", torch.full((), -torch.inf))
        signs = _signs(self.encoder.width, config.num_projected)
        self.register_buffer("projection", signs, persistent=False)
        self.bank = FeatureBank(self.encoder.width)
        self._codes: TaskCodes | None = None  # during `end_task` alone
        self._fit: RidgeFit | None = None  # since the bank changed last

    def begin_task(self, task: Task, reader: Reader) -> None:
        load_encoder(self.encoder, task, reader)
        super().begin_task(task, reader)

    def grow(self, task: Task) -> None:
        super().grow(task)
        self.bank.grow(task.num_new_classes)
        rows = self.means.new_zeros(task.num_new_classes, self.means.shape[1])
        self.means = append_rows(self.means, rows)

    def features(self, views: Tensor) -> Tensor:
        return self.encoder(views)

    def predict(self, views: Tensor) -> Tensor:
        """Scores whose softmax is calibrated on held-out images."""
        return self._score(to_directions(self.features(views))) / self.temperature

    def recognise(self, views: Tensor) -> tuple[Tensor, Tensor]:
        directions = to_directions(self.features(views))
        scores = self._score(directions)
        with in_float32(directions) as exact:
            cosines = functional.normalize(exact, dim=1) @ self.means.T
        familiarity = scores.amax(dim=1) + cosines.amax(dim=1)
        return scores / self.temperature, familiarity >= self.least_familiar

    def _score(self, directions: Tensor) -> Tensor:
        with in_float32(directions) as exact:
            return self.classifier(functional.relu(exact @ self.projection))

    def end_task(self, task: Task, reader: Reader) -> None:
        codes = TaskCodes(self.encoder, task, reader)
        self._codes = codes
        self.remember(task, reader)  # before the bank knows the codes, so as to skip duplicates
        self._codes = None
        for label in (*task.new_labels, *task.known_labels):
            self.bank.add(label, codes.of_class(label))
        self.refit()

    def kept(self) -> list[Keeps]:
        return [*super().kept(), *([self.bank] if self.bank.num_classes else [])]

    def forget_class(self, label: int) -> None:
        super().forget_class(label)
        self.bank.remove(label)
        self.means = self.means[:-1].clone()  # filled anew
        self.refit()

    @torch.no_grad()
    def refit(self) -> None:
        """Make the classifier of all features kept."""
        self._fit = self._compute_fit()
        self.classifier.weight.copy_(torch.from_numpy(self._fit.weights))
        self.temperature.fill_(self._fit.temperature)
        self.means.copy_(torch.from_numpy(self._fit.means))
        self.least_familiar.fill_(self._fit.least_familiar)

    def held_out(self) -> tuple[Tensor, Tensor] | None:
        """A fifth of the images, on which penalty and temperature were chosen."""
        if self._fit is None:  # loaded from a file
            self._fit = self._compute_fit()
        labels, scores = self._fit.held_out
        if len(labels) == 0:
            return None
        return torch.from_numpy(labels), torch.from_numpy(scores / self._fit.temperature)

    def _compute_fit(self) -> RidgeFit:
        codes = [self.bank.of_class(label) for label in range(self.bank.num_classes)]
        return fit_ridge(codes, self.projection.cpu().numpy())

    def candidates(self, task: Task, label: int, reader: Reader) -> Iterator[Candidate]:
        """As for every method, without images that are kept already."""
        assert self._codes is not None, "exemplars are chosen at the end of a task"
        assert self.memory is not None, "only a method with a memory ranks exemplars"
        images, codes = task.train.of_class(label), self._codes.of_class(label)
        is_new = ~self.bank.knows(label, codes) & _is_first(codes)
        images, codes = images.select(is_new.nonzero()[:, 0]), codes[is_new]
        room = self.memory.room(label)
        count = len(images) if room is None else min(room, len(images))
        rng = reader.generator("selection", label)
        ranks = select(self.memory.config.selection, codes.float(), count, rng)
        for batch in reader.images(images.select(ranks)):
            yield from map(Candidate, batch.numpy())


def _is_first(codes: Tensor) -> Tensor:
    """Bool [N]: whether a row is not a copy of one before it."""
    first = np.unique(codes.numpy(), axis=0, return_index=True)[1]
    found = torch.zeros(len(codes), dtype=torch.bool)
    found[torch.from_numpy(first)] = True
    return found


def _signs(width: int, count: int) -> Tensor:
    """float32 [D, M] of 1 and -1, the same everywhere and for every seed."""
    if torch.get_default_device().type == "meta":  # only shapes are asked for
        return torch.empty(width, count)
    draws = torch.randint(0, 2, (width, count), generator=generator(0, "projection"), device="cpu")
    return (2 * draws - 1).float()
