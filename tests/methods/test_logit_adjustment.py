from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from remnant.errors import InputError
from remnant.images import Task
from remnant.memory import MemoryConfig
from remnant.methods import Method
from remnant.models.classifier import LinearClassifier, adjust_biases
from remnant.testing import Trial
from remnant.testing.tiny_stream import PER_CLASS
from remnant.testing.trial import TrialRun
from tests.support.small_bimae import make_task
from tests.support.tiny_methods import TRIALS, VARIANTS


def trained(trial: Trial, weight: float) -> Method[Any]:
    """After both tasks; the last weights, not their mean."""
    update = {"logit_adjustment": weight}
    return replace(trial, config=trial.config.model_copy(update=update)).whole.method


@pytest.mark.parametrize("name", ["er", "bimae, full views"])
def test_after_the_second_task_scores_lose_the_log_of_the_images_of_their_class(name: str) -> None:
    trial = replace((TRIALS | VARIANTS)[name](), memory=MemoryConfig(budget="3images/class"))
    plain, adjusted = trained(trial, 0.0), trained(trial, 1.0)
    assert plain.memory is not None
    images = [*plain.memory.counts[:2], PER_CLASS, PER_CLASS]
    views = torch.rand(5, 3, 16, 16)
    with torch.no_grad():
        moved = plain.predict(views) - adjusted.predict(views)  # [5, 4]
    expected = [math.log(count) - math.log(images[0]) for count in images]
    # Up to a number that all classes share, which changes no answer.
    assert torch.allclose(moved - moved[:, :1], torch.tensor(expected).expand(5, 4), atol=1e-4)
    assert expected[2] > 1  # there is something to see


def test_training_starts_from_the_biases_that_training_left(tmp_path: Path) -> None:
    trial = replace(TRIALS["er"](), memory=MemoryConfig(budget="3images/class"))
    method = trained(trial, 1.0)
    classifier = method.classifier
    assert classifier.bias is not None
    assert classifier.adjustment is not None
    adjusted, taken = classifier.bias.detach().clone(), classifier.adjustment.clone()
    assert taken.abs().min() > 0.1
    method.begin_task(no_news(), TrialRun(trial, tmp_path).trainer.reader)
    assert torch.allclose(classifier.bias, adjusted + taken)
    assert torch.equal(classifier.adjustment, torch.zeros(4))


def no_news() -> Task:
    """A task that brings more images of old classes."""
    old = make_task(0)
    return replace(old, index=2, num_old_classes=4, class_names=())


def test_many_small_updates_do_not_add_up() -> None:
    classifier = LinearClassifier(4)
    classifier.make_adjustable()
    classifier.grow(2)
    for _ in range(10):
        adjust_biases(classifier, torch.tensor([1000, 10]), 1.0)
    assert classifier.adjustment is not None
    assert classifier.adjustment.tolist() == pytest.approx([math.log(10), -math.log(10)], rel=1e-5)


@pytest.mark.parametrize("name", ["er", "bimae, full views"])
def test_a_prior_is_not_taken_off_twice(name: str) -> None:
    config = (TRIALS | VARIANTS)[name]().config
    first = config.first.model_copy(update={"corrects_prior": True})
    twice = config.model_copy(update={"first": first, "logit_adjustment": 1.0})
    with pytest.raises(InputError, match="logit_adjustment takes from the scores"):
        replace((TRIALS | VARIANTS)[name](), config=twice).build()
