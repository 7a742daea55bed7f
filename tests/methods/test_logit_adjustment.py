from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from remnant.memory import MemoryConfig
from remnant.methods import Method
from remnant.methods.logit_adjustment import adjust_scores
from remnant.models.classifier import LinearClassifier
from remnant.testing import Trial
from remnant.testing.tiny_stream import PER_CLASS
from tests.support.small_bimae import make_task
from tests.support.tiny_methods import TRIALS, VARIANTS


def trained(trial: Trial, weight: float) -> Method[Any]:
    """After both tasks; the last weights, not their mean."""
    update = {"logit_adjustment": weight}
    return replace(trial, config=trial.config.model_copy(update=update)).whole.method


@pytest.mark.numeric
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


def test_nothing_is_adjusted_where_nothing_is_replayed() -> None:
    classifier = LinearClassifier(4)
    classifier.grow(2)
    assert classifier.bias is not None
    before = classifier.bias.clone()
    adjust_scores(classifier, make_task(0), None, 1.0)
    assert torch.equal(classifier.bias, before)
