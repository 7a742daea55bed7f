"""The checks of methods can fail: for each rule, a method that breaks it and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remnant.images import ImageSet, Task
from remnant.memory import Keeps, KeptTensors
from remnant.methods import MethodConfig, MethodContext
from remnant.phases import Batch, Phase, Reader, Terms
from remnant.testing import check_method, small_config
from remnant.testing.method_checks import (
    check_config,
    check_gradients,
    check_kept,
    check_learning,
    check_memory,
    check_reads,
    check_resume,
    check_same_seed,
    check_shapes,
)
from remnant.testing.trial import Trial
from tests.support.pixel_method import Pixels, PixelsConfig, schedule


def trial_of(kind: type[Pixels]) -> Trial:
    return Trial.of(kind, small_config(kind, first=schedule(2, lr=0.02)))


def test_a_method_that_follows_the_rules_passes_all_checks() -> None:
    check_method(Pixels, small_config(Pixels, first=schedule(2, lr=0.02)))


class Nameless(Pixels):
    class Config(MethodConfig):
        name: Any = None


def test_a_config_without_a_name_is_found() -> None:
    config = Nameless.Config(first=schedule())
    with pytest.raises(AssertionError, match="name must have the method's name as default"):
        check_config(Trial(Nameless, config, None))


class Unsaved(Pixels):
    class Config(PixelsConfig):
        def __eq__(self, other: object) -> bool:
            return self is other


def test_a_config_that_changes_on_file_is_found() -> None:
    with pytest.raises(AssertionError, match="equal after a round trip through JSON"):
        check_config(trial_of(Unsaved))


class AllClasses(Pixels):
    def predict(self, views: Tensor) -> Tensor:
        return F.pad(super().predict(views), (0, 1))


def test_scores_of_classes_to_come_are_found() -> None:
    with pytest.raises(AssertionError, match=r"\[3, 2\] after 1 tasks; got \[3, 3\]"):
        check_shapes(trial_of(AllClasses))


class Noisy(Pixels):
    def loss(self, batch: Batch) -> Terms:
        return {name: term * np.random.rand() for name, term in super().loss(batch).items()}


def test_random_numbers_without_a_seed_are_found() -> None:
    with pytest.raises(AssertionError, match=r"same seed .* these differ: model/classifier"):
        check_same_seed(trial_of(Noisy))


class Idle(Pixels):
    def loss(self, batch: Batch) -> Terms:
        return {name: 1e-9 * term for name, term in super().loss(batch).items()}


def test_a_method_that_does_not_learn_is_found() -> None:
    with pytest.raises(AssertionError, match="newest classes must be right for 75% of"):
        check_learning(trial_of(Idle))


class Forgetful(Pixels):
    def end_task(self, task: Task, reader: Reader) -> None:
        if task.index == 0:
            super().end_task(task, reader)


def test_a_memory_without_the_newest_classes_is_found() -> None:
    with pytest.raises(AssertionError, match="must hold all 4 classes at the end"):
        check_memory(trial_of(Forgetful))


class Hoarding(Pixels):
    """Trains on the images of the task before as well."""

    past: ImageSet | None = None

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        schedule = self.config.schedule(task)
        yield self.phase("train", task.train, schedule, replay=self.past or self.replay())
        self.past = task.train


def test_images_of_an_earlier_task_are_found() -> None:
    with pytest.raises(AssertionError, match=r"were read: \[\(1, 0\)\]"):
        check_reads(trial_of(Hoarding))


class Unused(Pixels):
    def __init__(self, config: PixelsConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.unused = nn.Parameter(torch.zeros(3))


def test_a_parameter_that_no_loss_moves_is_found() -> None:
    with pytest.raises(AssertionError, match=r"never get a gradient: .*'unused'"):
        check_gradients(trial_of(Unused))


class Counting(Pixels):
    """Learns less and less, by a number that no checkpoint has."""

    num_losses = 0

    def loss(self, batch: Batch) -> Terms:
        self.num_losses += 1
        return {name: term / self.num_losses for name, term in super().loss(batch).items()}


def test_a_state_that_no_checkpoint_has_is_found() -> None:
    with pytest.raises(AssertionError, match="resumed must end as one that never stopped"):
        check_resume(trial_of(Counting))


class Listing(Pixels):
    """Lists as kept what its parameter `listed` says."""

    listed: ClassVar[Literal["classifier", "twice", "nothing", "empty"]]

    def kept(self) -> list[Keeps]:
        weight = KeptTensors("weight", {"weight": self.classifier.weight})
        again = KeptTensors("again", {"weight": self.classifier.weight})
        return {
            "classifier": [*super().kept(), weight],
            "twice": [*super().kept(), weight, again],
            "nothing": [],
            "empty": [*super().kept(), KeptTensors("empty", {})],
        }[self.listed]


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ("classifier", "predict must not need what is kept"),
        ("twice", "again/weight must be a buffer or parameter, once"),
        ("nothing", "kept must list the memory"),
        ("empty", r"nothing is kept as \['empty'\]"),
    ],
)
def test_wrong_lists_of_what_is_kept_are_found(listed: str, message: str) -> None:
    kind = type("Listing", (Listing,), {"listed": listed})
    with pytest.raises(AssertionError, match=message):
        check_kept(trial_of(kind))
