from __future__ import annotations

import pytest
import torch
from torch import nn

from remnant.methods.distillation import DistillationConfig, distill
from remnant.methods.teacher import make_teacher
from tests.support.small_residual import slow_distillation

SCORES = torch.tensor([[1.0, 2.0, -1.0, 9.0], [0.5, 0.0, 3.0, -9.0]])
TEACHER = torch.tensor([[2.0, 0.0, 0.0], [-1.0, 1.0, 1.0]])


def test_the_default_is_cross_entropy_at_temperature_two_over_the_old_classes() -> None:
    expected = slow_distillation(SCORES, TEACHER, temperature=2)
    assert distill(DistillationConfig(), SCORES, TEACHER).item() == pytest.approx(expected)


def test_scores_of_new_classes_do_not_count() -> None:
    changed = SCORES.clone()
    changed[:, 3] = 0
    config = DistillationConfig()
    assert distill(config, changed, TEACHER) == distill(config, SCORES, TEACHER)


def test_settings_scale_the_loss_as_they_say() -> None:
    plain = distill(DistillationConfig(), SCORES, TEACHER).item()
    for settings, factor in (
        ({"weight": 3.0}, 3),
        ({"times_temperature_squared": True}, 4),
        ({"mean_over": "entries"}, 1 / 3),
    ):
        config = DistillationConfig.model_validate(settings)
        assert distill(config, SCORES, TEACHER).item() == pytest.approx(factor * plain)


def test_a_teacher_is_frozen_in_evaluation_mode_and_apart_from_the_network() -> None:
    backbone, classifier = nn.BatchNorm1d(3), nn.Linear(3, 2)
    teacher = make_teacher(backbone.train(), classifier)
    views = torch.randn(4, 3)
    expected = classifier(backbone.eval()(views)).detach()
    backbone.train()(10 * views)  # moves its statistics
    with torch.no_grad():
        classifier.weight += 1
    found = teacher(views)
    assert torch.equal(found, expected)
    assert not found.requires_grad
