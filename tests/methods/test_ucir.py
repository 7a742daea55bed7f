from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from remnant.methods.ucir import UCIRConfig, mean_directions
from tests.support.small_bimae import make_batch, make_task, make_trainer
from tests.support.small_residual import (
    SCHEDULE,
    in_second_task,
    learn_task,
    make_residual,
    slow_cross_entropy,
)

SIGNED = {"backbone": {"name": "resnet8", "has_last_relu": False}}


def test_the_defaults_are_those_of_the_paper_on_cifar100() -> None:
    config = UCIRConfig.model_validate({"first": SCHEDULE})
    assert (config.less_forget_weight, config.rank_weight) == (5, 1)
    assert (config.margin, config.num_rivals) == (0.5, 2)
    assert (config.backbone.shortcut, config.backbone.has_last_relu) == ("project", False)
    assert (config.balanced_tuning, config.prediction) == (None, "scores")


# ------------------------------------------------------------------------------------------ losses


def slow_cosine(a: Tensor, b: Tensor) -> float:
    return float((a * b).sum() / a.square().sum().sqrt() / b.square().sum().sqrt())


def test_the_loss_is_classification_less_forget_and_ranking() -> None:
    method = in_second_task(make_trainer(), "ucir", **SIGNED)
    method.cosine.grow(1)  # 4 old classes and 1 new one: a factor of 2
    with torch.no_grad():
        method.cosine.scale.fill_(3)
        method.teacher.network.conv.weight.mul_(-1)  # so that it differs
    batch = make_batch(labels=torch.tensor([0, 4, 3]))
    terms = method.loss(batch)
    features, old = method.features(batch.views).detach(), method.teacher(batch.views)
    vectors = method.cosine.rows.detach()
    rows = [[slow_cosine(feature, vector) for vector in vectors] for feature in features]
    apart = [1 - slow_cosine(new, before) for new, before in zip(features, old, strict=True)]
    shortfalls = [
        max(0.0, 0.5 - rows[image][label] + rows[image][4]) for image, label in ((0, 0), (2, 3))
    ]
    assert set(terms) == {"classify", "less_forget", "rank"}
    expected = slow_cross_entropy(3 * torch.tensor(rows), [0, 4, 3])
    assert terms["classify"].item() == pytest.approx(expected, rel=1e-4)
    expected = 5 * math.sqrt(4 / 1) * sum(apart) / 3
    assert terms["less_forget"].item() == pytest.approx(expected, rel=1e-4)
    assert terms["rank"].item() == pytest.approx(sum(shortfalls) / 2, rel=1e-4)


def test_the_first_task_is_plain_classification() -> None:
    method = make_residual("ucir", **SIGNED)
    method.eval().begin_task(make_task(0), make_trainer().reader)
    assert set(method.loss(make_batch(labels=torch.tensor([0, 1, 1])))) == {"classify"}


def test_new_vectors_are_the_mean_directions_of_their_classes_at_the_length_of_old_ones() -> None:
    features = torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, 5.0], [-2.0, 0.0]])
    found = mean_directions(features, torch.tensor([2, 3, 2, 3]), range(2, 4))
    # class 2: units (0.6, 0.8) and (0, 1); class 3: units that cancel
    long = math.hypot(0.3, 0.9)
    torch.testing.assert_close(found, torch.tensor([[0.3 / long, 0.9 / long], [0.0, 0.0]]))

    trainer = make_trainer()
    method = make_residual("ucir", **SIGNED)
    learn_task(method, 0, trainer)
    before = method.cosine.rows.detach().clone()
    task = make_task(1)
    method.eval().begin_task(task, trainer.reader)
    assert torch.equal(method.cosine.old, before)
    views = trainer.reader.views(task.train.images.read(torch.arange(len(task.train))))
    with torch.no_grad():
        expected = mean_directions(method.features(views), task.train.labels, task.new_labels)
    lengths = [math.sqrt(float(row.square().sum())) for row in before]
    expected = expected * sum(lengths) / 2
    torch.testing.assert_close(method.cosine.new.detach(), expected, rtol=1e-4, atol=1e-5)


def test_tuning_leaves_the_network_and_its_statistics_alone() -> None:
    trainer = make_trainer()
    method = in_second_task(trainer, "ucir", balanced_tuning=SCHEDULE, **SIGNED)
    task = make_task(1)
    phases = method.phases(task, trainer.reader)
    trainer.fit(method, task, next(phases))
    before = {name: tensor.clone() for name, tensor in method.backbone.state_dict().items()}
    trainer.fit(method, task, next(phases))
    for name, tensor in method.backbone.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_without_tuning_there_is_one_phase_and_a_full_memory() -> None:
    trainer = make_trainer()
    method = in_second_task(trainer, "ucir", **SIGNED)
    assert [phase.name for phase in method.phases(make_task(1), trainer.reader)] == ["train"]
    assert method.memory.counts == [3] * 4
