from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import torch

from remnant.errors import InputError
from remnant.methods import METHODS, MethodContext, kept_bytes
from remnant.methods.prototype_augmentation import normal, rotated_labels, rotations
from tests.support.small_bimae import make_batch, make_task, make_trainer
from tests.support.small_residual import (
    SCHEDULE,
    in_second_task,
    learn_task,
    make_residual,
    slow_cross_entropy,
)


def test_every_view_comes_in_four_turns_with_four_labels() -> None:
    views, labels = torch.randn(2, 3, 4, 4), torch.tensor([5, 0])
    turned = rotations(views)
    for image in range(2):
        for turn in range(4):
            expected = np.stack([np.rot90(channel, turn) for channel in views[image].numpy()])
            assert np.array_equal(turned[4 * image + turn].numpy(), expected)
    assert rotated_labels(labels).tolist() == [20, 21, 22, 23, 0, 1, 2, 3]


def test_uniform_draws_become_normal_ones() -> None:
    draws = [0.0, 2**-24, 0.001, 0.3, 0.5, 0.9, 1 - 2**-24]
    found = normal(torch.tensor(draws)).tolist()
    expected = [NormalDist().inv_cdf(draw or 2**-25) for draw in draws]
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-6)
    assert all(math.isfinite(number) for number in found)


def test_the_first_task_classifies_rotations_at_a_low_temperature() -> None:
    trainer, method = make_trainer(), make_residual("pass", temperature=0.5)
    method.begin_task(make_task(0), trainer.reader)
    batch = make_batch(2)
    terms = method.eval().loss(batch)
    scores = method.classifier(method.backbone(rotations(batch.views))).detach()  # [8, 8]
    expected = slow_cross_entropy(scores / 0.5, list(range(8)))
    assert {name: term.item() for name, term in terms.items()} == {
        "classify": pytest.approx(expected, rel=1e-4)
    }


def test_later_tasks_hold_features_and_train_on_noisy_prototypes() -> None:
    trainer = make_trainer()
    options = {"prototype_weight": 3.0, "feature_weight": 2.0, "temperature": 0.2}
    method = in_second_task(trainer, "pass", **options)
    with torch.no_grad():
        method.backbone.conv.weight += 0.05 * torch.randn(method.backbone.conv.weight.shape)
    batch = make_batch(3, labels=torch.tensor([2, 3, 2]))
    terms = method.loss(batch)
    views = rotations(batch.views)
    new, old = method.backbone(views).tolist(), method.teacher(views).tolist()
    squares = [(a - b) ** 2 for one, other in zip(new, old, strict=True)
               for a, b in zip(one, other, strict=True)]  # fmt: skip
    assert terms["distill"].item() == pytest.approx(2 * math.sqrt(sum(squares)), rel=1e-3)
    chosen = [int(draw * 2) for draw in batch.draw("class", 1)[:, 0].tolist()]
    noisy = [
        [
            float(method.prototypes[label, place])
            + float(method.radius) * NormalDist().inv_cdf(draw)
            for place, draw in enumerate(row)
        ]
        for label, row in zip(chosen, batch.draw("noise", 64).tolist(), strict=True)
    ]
    scores = method.classifier(torch.tensor(noisy)).detach() / 0.2  # [3, 16]
    expected = 3 * slow_cross_entropy(scores, [4 * label for label in chosen])
    assert terms["prototypes"].item() == pytest.approx(expected, rel=1e-3)


def test_prototypes_are_mean_features_and_the_radius_that_of_the_first_task() -> None:
    trainer, method = make_trainer(), make_residual("pass")
    learn_task(method, 0, trainer)
    train, traces = make_task(0).train, []
    for label in (0, 1):
        features = trainer.reader.apply(method.features, train.of_class(label)).numpy()
        np.testing.assert_allclose(
            method.prototypes[label].numpy(), features.mean(axis=0), rtol=1e-4, atol=1e-5
        )
        traces.append(np.trace(np.cov(features.T)) / features.shape[1])
    radius = float(method.radius)
    assert radius == pytest.approx(math.sqrt(np.mean(traces)), rel=1e-3)
    first = method.prototypes.clone()
    learn_task(method, 1, trainer)
    assert torch.equal(method.prototypes[:2], first)
    assert method.prototypes[2:].abs().sum() > 0
    assert float(method.radius) == radius


def test_predictions_are_scores_of_upright_images() -> None:
    method = in_second_task(make_trainer(), "pass")
    views = make_batch(3).views
    scores = method.classifier(method.features(views))
    assert scores.shape == (3, 16)
    assert torch.equal(method.predict(views), scores[:, [0, 4, 8, 12]])


def test_prototypes_are_counted_in_bytes() -> None:
    trainer, method = make_trainer(), make_residual("pass")
    for index in (0, 1):
        learn_task(method, index, trainer)
    assert kept_bytes(method)["prototypes"] == 4 * 64 * 4 + 4  # and the radius


def test_images_that_are_not_square_are_refused() -> None:
    config: Any = METHODS["pass"].Config.parse({"name": "pass", "first": SCHEDULE})
    with pytest.raises(InputError, match=r"must be square; got 16 x 24"):
        METHODS["pass"](config, MethodContext((16, 24, 3), (2,), None))
