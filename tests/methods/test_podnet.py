from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from remnant.errors import InputError
from remnant.losses import direction_loss, nca_loss, pod_spatial_loss
from remnant.methods.base import MethodContext
from remnant.methods.podnet import PODNet, PODNetConfig, cluster_centres, distilled_maps
from remnant.models.resnet import resnet18, resnet_cifar
from tests.support.small_bimae import SHAPE, make_batch, make_task, make_trainer
from tests.support.small_residual import SCHEDULE, in_second_task, make_residual
from tests.support.worlds import seeded

SIGNED = {"backbone": {"name": "resnet8", "has_last_relu": False}}


def test_the_defaults_are_those_of_the_paper_on_cifar100() -> None:
    config = PODNetConfig.model_validate({"first": SCHEDULE})
    assert (config.num_proxies, config.margin) == (10, 0.6)
    assert (config.spatial_weight, config.flat_weight) == (3, 1)
    assert not config.backbone.has_last_relu
    tuning = config.balanced_tuning
    assert tuning is not None
    assert (tuning.epochs, tuning.optimizer.lr, tuning.optimizer.schedule) == (20, 0.05, "constant")
    assert (tuning.optimizer.weight_decay, tuning.optimizer.clip_value) == (5e-4, 5)


# ------------------------------------------------------------------------------------------ losses


def test_the_loss_weighs_distillation_by_the_root_of_seen_over_new_classes() -> None:
    method = in_second_task(make_trainer(), "podnet", **SIGNED)
    method.proxies.grow(1)  # 5 classes seen, 1 of them new
    with torch.no_grad():
        method.proxies.scale.fill_(3)
        method.teacher.network.conv.weight.mul_(-1)  # so that it differs
    batch = make_batch(labels=torch.tensor([0, 4, 3]))
    terms = method.loss(batch)
    features, sums = method.network.with_sums(batch.views)
    old, old_sums = method.teacher.network.with_sums(batch.views)
    similarities = method.proxies.similarities(features)
    scale = method.proxies.scale
    expected = {
        "classify": nca_loss(similarities, batch.labels, scale, 0.6, "released"),
        "spatial": 3
        * math.sqrt(5)
        * pod_spatial_loss(distilled_maps(sums), distilled_maps(old_sums)),
        "flat": 1 * math.sqrt(5) * direction_loss(features, old),
    }
    assert {name: term.item() for name, term in terms.items()} == pytest.approx(
        {name: term.item() for name, term in expected.items()}, rel=1e-5
    )
    assert min(terms["spatial"].item(), terms["flat"].item()) > 0.01


def test_the_first_task_is_plain_classification() -> None:
    method = make_residual("podnet", **SIGNED)
    method.eval().begin_task(make_task(0), make_trainer().reader)
    assert set(method.loss(make_batch(labels=torch.tensor([0, 1, 1])))) == {"classify"}


def test_four_maps_are_distilled_of_the_published_networks() -> None:
    views = torch.randn(1, 3, 16, 16)
    with torch.no_grad():
        _, thin = resnet_cifar(32, has_last_relu=False).eval().with_sums(views)
        _, wide = resnet18(has_last_relu=False).eval().with_sums(views)
    chosen = [thin[0][4], thin[1][4], thin[2][3], thin[2][4]]
    assert all(a is b for a, b in zip(distilled_maps(thin), chosen, strict=True))
    chosen = [stage[1] for stage in wide]
    assert all(a is b for a, b in zip(distilled_maps(wide), chosen, strict=True))


def test_the_hinge_of_the_paper_is_refused_where_it_would_learn_nothing() -> None:
    config = PODNetConfig.model_validate({"first": SCHEDULE, "nca": "paper", **SIGNED})
    with pytest.raises(InputError, match="first task must bring 3 classes, but brings 2"):
        PODNet(config, MethodContext(SHAPE, (2, 2), None))
    PODNet(config, MethodContext(SHAPE, (3, 2), None))


# ----------------------------------------------------------------------------------------- clusters


def blobs(num_blobs: int, per_blob: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Features around far corners, and the mean of each blob."""
    chance = seeded(0)
    points = 10 * torch.eye(num_blobs).repeat_interleave(per_blob, dim=0)
    points += 0.1 * torch.randn(points.shape, generator=chance)
    return points, points.view(num_blobs, per_blob, -1).mean(dim=1)


def test_proxies_are_the_means_of_what_lies_together() -> None:
    points, means = blobs(4, 6)
    centres = cluster_centres(points, 4, seeded(1))
    order = centres.argmax(dim=1).argsort()
    torch.testing.assert_close(centres[order], means)


def test_clusters_depend_on_their_generator_alone() -> None:
    points = torch.randn(30, 5)
    found = []
    for seed in (1, 1, 2):
        np.random.seed(len(found))
        torch.manual_seed(len(found))
        found.append(cluster_centres(points, 7, seeded(seed)))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_with_fewer_different_features_than_proxies_centres_are_repeated() -> None:
    points = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    centres = cluster_centres(points, 5, seeded(0))
    assert centres.shape == (5, 2)
    assert {tuple(centre) for centre in centres.tolist()} == {(1.0, 0.0), (0.0, 1.0)}


def test_a_class_of_one_image_has_proxies() -> None:
    centres = cluster_centres(torch.tensor([[0.6, 0.8]]), 3, seeded(0))
    torch.testing.assert_close(centres, torch.tensor([[0.6, 0.8]] * 3))


# ------------------------------------------------------------------------------------------- tuning


def test_tuning_moves_no_weight_of_the_network_but_its_statistics_as_released() -> None:
    trainer = make_trainer()
    method = in_second_task(trainer, "podnet", balanced_tuning=SCHEDULE, **SIGNED)
    task = make_task(1)
    phases = method.phases(task, trainer.reader)
    trainer.fit(method, task, next(phases))
    weights = [parameter.detach().clone() for parameter in method.network.parameters()]
    mean = method.network.norm.running_mean.clone()
    trainer.fit(method, task, next(phases))
    for parameter, before in zip(method.network.parameters(), weights, strict=True):
        assert torch.equal(parameter, before)
    assert not torch.equal(method.network.norm.running_mean, mean)
