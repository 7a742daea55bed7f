from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from remnant.config import override
from remnant.errors import InputError
from remnant.memory import herding
from remnant.methods import kept_bytes
from remnant.methods.activation_maps import activation_maps, blur
from remnant.methods.cim import CIMConfig
from remnant.recipes import load_recipe
from remnant.runs.experiment import validate_run
from tests.support.small_bimae import make_batch, make_task, make_trainer
from tests.support.small_residual import (
    SCHEDULE,
    in_second_task,
    learn_task,
    make_residual,
    slow_cross_entropy,
)

BOXED: dict[str, Any] = {"codec": "boxed", "mask_every": 2, "mask_images": 2}
LABELS = torch.tensor([2, 3, 3, 2])


def make_pairs() -> Any:
    return make_batch(4, labels=LABELS)


def test_the_mask_is_judged_by_real_images_after_a_step_on_blurred_ones() -> None:
    """[cim] both levels by hand: a copy of the network is really trained."""
    method = in_second_task(make_trainer(), "cim", **BOXED, inner_lr=0.3)
    terms, batch = method._mask_loss(make_pairs()), make_pairs()
    method.eval()
    views, labels = batch.views[:2], LABELS[:2]
    maps = method._maps(views)
    heat = activation_maps(maps, method.base.classifier.weight[labels])
    mask = F.interpolate(heat, (16, 16), mode="bilinear")
    hybrid = (mask * views + (1 - mask) * blur(views, 2)).detach()
    copied = copy.deepcopy(method.base)
    loss = sum(copied.loss(replace(make_batch(2, labels=labels), views=hybrid)).values())
    loss.backward()
    with torch.no_grad():
        for parameter in copied.backbone.parameters():
            parameter -= 0.3 * parameter.grad
    scores = method.base.classifier(copied.backbone(batch.views[2:])).detach()
    expected = slow_cross_entropy(scores, LABELS[2:].tolist())
    assert terms["mask serve"].item() == pytest.approx(expected, rel=1e-3)
    by_masks = method.base.classifier(maps.mean(dim=(2, 3))).detach()
    guessed = slow_cross_entropy(by_masks, labels.tolist())
    assert terms["mask classify"].item() == pytest.approx(0.2 * guessed, rel=1e-3)
    squares = [value**2 for value in heat.flatten().tolist()]
    assert terms["mask size"].item() == pytest.approx(0.1 * sum(squares) / len(squares), rel=1e-3)


def test_the_gradient_of_the_mask_goes_through_the_step() -> None:
    """By differences, for one coefficient of one activation."""
    method = in_second_task(make_trainer(), "cim", **BOXED, inner_lr=0.3).double()
    method.base.teacher.network.double()
    pairs = make_pairs()
    batch = replace(pairs, views=pairs.views.double())
    coefficient = method.mask_generator[2].above

    def total() -> torch.Tensor:
        return sum(method._mask_loss(batch).values())  # type: ignore[return-value]

    total().backward()
    slope = float(coefficient.grad[1])
    values, step = [], 1e-8  # so small that no ReLU switches
    for shift in (step, -step):
        with torch.no_grad():
            coefficient[1] += shift
        values.append(float(total().detach()))
        with torch.no_grad():
            coefficient[1] -= shift
    assert slope == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-2, abs=1e-6)


def test_training_goes_on_in_training_mode_after_a_turn_of_the_mask() -> None:
    method = in_second_task(make_trainer(), "cim", **BOXED).train()
    method._mask_loss(make_pairs())
    assert all(module.training for module in method.modules())


def test_exemplars_alone_move_no_mask() -> None:
    method = in_second_task(make_trainer(), "cim", **BOXED)
    batch = make_batch(labels=torch.tensor([0, 1, 0]), is_replay=torch.ones(3, dtype=torch.bool))
    terms = method._mask_loss(batch)
    assert {name: term.item() for name, term in terms.items()} == {"mask serve": 0.0}


def test_boxes_are_found_anew_and_more_images_are_shown_compressed() -> None:
    trainer = make_trainer()
    schedule = {"epochs": 5, "batch_size": 4, "optimizer": {"name": "sgd", "lr": 0.05}}
    method = make_residual("cim", **BOXED, first=schedule, refresh_every_epochs=2)
    task = make_task(0)
    method.begin_task(task, trainer.reader)
    parts = []
    for phase in method.phases(task, trainer.reader):
        parts.append((phase.name, phase.epochs, phase.twins is not None, phase.twin_ratio))
        assert [player.every for player in phase.players] == [1, 2]
        trainer.fit(method, task, phase)
    assert parts == [
        ("train from epoch 1", (0, 2), False, 1.0),
        ("train from epoch 3", (2, 4), True, 0.1),
        ("train from epoch 5", (4, 5), True, 0.2),
    ]


def test_what_is_stored_is_sharp_in_its_box_and_blurred_elsewhere() -> None:
    trainer = make_trainer()
    method = make_residual("cim", **BOXED)
    learn_task(method, 0, trainer)
    task = make_task(0)
    for label in (0, 1):
        originals = task.train.of_class(label)
        pixels = originals.images.read(torch.arange(len(originals)))
        offered = list(method._describe(pixels, label, trainer.reader))
        stored = [method.memory.codec.decode(one)[0] for one in method.memory.exemplars(label)]
        coded = [
            method.memory.codec.decode(method.memory.codec.encode(one, torch.Generator()))[0]
            for one in offered
        ]
        assert all(any(np.array_equal(one, other) for other in coded) for one in stored)
        assert any(one.box is not None and one.box[2:] != (16, 16) for one in offered)


def test_herding_sees_images_with_their_boxes_and_blurred_elsewhere() -> None:
    trainer = make_trainer()
    method = in_second_task(trainer, "cim", **BOXED)
    images, codec = make_task(1).train.of_class(2), method.memory.codec
    pixels = images.images.read(torch.arange(len(images)))
    offered = method._describe(pixels, 2, trainer.reader)
    coded = [codec.decode(codec.encode(one, torch.Generator()))[0] for one in offered]
    views = trainer.reader.views(torch.from_numpy(np.stack(coded)))
    with torch.no_grad():
        expected = herding(method.features(views), 3)
    found = method.base.rank_exemplars(images, 2, 3, trainer.reader)
    assert found.tolist() == expected.tolist()


def test_twins_are_new_images_as_they_would_be_stored() -> None:
    trainer = make_trainer()
    method = in_second_task(trainer, "cim", **BOXED)
    task = make_task(1)
    twins = method._compress(task.train, trainer.reader)
    for label in (2, 3):
        places = torch.nonzero(task.train.labels == label).flatten()
        pixels = task.train.images.read(places)
        offered = method._describe(pixels, label, trainer.reader)
        for place, candidate in zip(places.tolist(), offered, strict=True):
            exemplar = method.memory.codec.encode(candidate, torch.Generator())
            shown = twins.images.read(torch.tensor([place]))[0].numpy()
            assert np.array_equal(shown, method.memory.codec.decode(exemplar)[0])


BASES = ["er", "icarl", "bic"]  # beside the default, wa


def test_every_base_is_tried() -> None:
    assert {*BASES, "wa"} == {*CIMConfig.bases}


@pytest.mark.parametrize("base", BASES)
def test_it_goes_around_other_methods(base: str) -> None:
    method = in_second_task(make_trainer(), "cim", **BOXED, base=base)
    assert method.base.config.name == base
    assert min(method.memory.counts) >= 2


def test_twins_are_those_of_the_images_that_the_base_trains_on() -> None:
    """BiC sets images aside, so that its training has fewer than the task, in another order."""
    trainer = make_trainer()
    options = {**BOXED, "base": "bic", "refresh_every_epochs": 1, "first": SCHEDULE | {"epochs": 2}}
    method = in_second_task(trainer, "cim", **options)
    phases = [one for one in method.phases(make_task(1), trainer.reader) if one.twins is not None]
    assert phases
    for phase in phases:
        assert len(phase.data) < len(make_task(1).train)
        expected = method._compress(phase.data, trainer.reader)
        places = torch.arange(len(phase.data))
        assert torch.equal(phase.twins.images.read(places), expected.images.read(places))


def test_the_mask_generator_is_counted() -> None:
    method = in_second_task(make_trainer(), "cim", **BOXED)
    assert kept_bytes(method)["mask_generator"] == 4 * 10 * method.base.backbone.num_activations


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"memory.codec": "raw"}, "memory.codec must be boxed; got raw"),
        ({"method.backbone.name": "conv"}, "method.backbone.name must be one of resnet8"),
        ({"method.base": "podnet"}, "method.base must be one of wa, icarl, er, bic; got podnet"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        validate_run(override(load_recipe("digits-cim"), changes))
