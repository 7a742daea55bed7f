from __future__ import annotations

from typing import Any

import pytest
import torch

from remnant.methods.backbones import BackboneConfig, residual_builder
from remnant.models.prunable_resnet import Extractor
from tests.support.small_bimae import make_batch, make_task, make_trainer
from tests.support.small_residual import (
    SCHEDULE,
    learn_task,
    make_residual,
    slow_cross_entropy,
    slow_distillation,
)

LABELS = torch.tensor([0, 3, 2])


def make(**options: Any) -> Any:
    settings = {"balanced_tuning": SCHEDULE, "compression": SCHEDULE}
    return make_residual("simple-expandable", **(settings | options))


def test_the_loss_adds_the_teacher_by_the_share_of_old_classes() -> None:
    trainer, method = make_trainer(), make()
    learn_task(method, 0, trainer)
    batch = make_batch(labels=LABELS)
    old = method.eval().predict(batch.views).detach()
    method.begin_task(make_task(1), trainer.reader)
    scores = method.eval().predict(batch.views).detach()
    terms = method.loss(batch)
    assert terms["classify"].item() == pytest.approx(slow_cross_entropy(scores, [0, 3, 2]))
    expected = 2 / 4 * slow_distillation(scores, old, temperature=2)
    assert terms["distill"].item() == pytest.approx(expected, rel=1e-5)


def test_the_first_task_is_plain_cross_entropy() -> None:
    trainer, method = make_trainer(), make()
    method.eval().begin_task(make_task(0), trainer.reader)
    assert set(method.loss(make_batch(labels=torch.tensor([0, 1, 1])))) == {"classify"}


def test_what_is_left_learns_the_features_that_the_whole_gave() -> None:
    trainer, method, task = make_trainer(), make(regression_weight=0.5), make_task(0)
    method.begin_task(task, trainer.reader)
    phases = method.phases(task, trainer.reader)
    trainer.fit(method, task, next(phases))
    batch = make_batch(labels=torch.tensor([0, 1, 1]))
    whole = method.features(batch.views).detach()
    phase = next(phases)
    assert phase.name == "compress"
    newest = method.network.newest
    features = method.features(batch.views).detach()
    places = torch.nonzero(newest.feature_channels(newest.is_kept)).flatten().tolist()
    squares = [
        (float(features[image, column]) - float(whole[image, place])) ** 2
        for image in range(3)
        for column, place in enumerate(places)
    ]
    terms = phase.players[0].loss(batch)
    assert terms["regress"].item() == pytest.approx(0.5 * sum(squares) / len(squares), rel=1e-4)
    scores = method.predict(batch.views).detach()
    assert terms["classify"].item() == pytest.approx(slow_cross_entropy(scores, [0, 1, 1]))
    assert {id(weight) for weight in phase.parameters} == {id(one) for one in method.parameters()}


def test_that_share_of_every_group_of_channels_goes() -> None:
    trainer, method = make_trainer(), make(cut_ratio=0.5)
    for index in (0, 1):
        learn_task(method, index, trainer)
    for extractor in method.network.all():
        kept = [int(part.sum()) for part in extractor.is_kept.split(extractor.group_sizes)]
        assert kept == [size // 2 for size in extractor.group_sizes]
    assert method.network.width == 2 * 32


def test_nothing_is_cut_or_compressed_where_it_is_off() -> None:
    trainer, method = make_trainer(), make(cut_ratio=0)
    log = learn_task(method, 0, trainer)
    assert {report.phase for report in log.reports} == {"train"}
    assert method.network.newest.is_kept.all()


def test_the_default_leaves_a_sixth_of_the_weights() -> None:
    extractor = Extractor(residual_builder(BackboneConfig(name="resnet18"), 3)())
    extractor.cut(extractor.strongest(0.6))
    count = sum(weight.numel() for weight in extractor.parameters())
    assert count / 11_168_832 == pytest.approx(1 / 6, abs=0.01)
