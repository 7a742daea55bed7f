from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from remnant.images import ArrayImages, ImageSet, Task
from remnant.methods.base import Method, MethodContext
from remnant.phases import Batch, OptimizerConfig, Phase, Player, StepReport, Terms
from remnant.training.network_state import Arrays
from remnant.training.trainer import NonFiniteLossError
from tests.support.pixel_method import Pixels, flat_weights, make_pixels, schedule
from tests.support.pixel_trainer import make_trainer
from tests.support.small_residual import make_residual
from tests.support.step_log import Log
from tests.support.worlds import LazyImages, make_set


def make_task(images: ImageSet) -> Task:
    return Task(0, 1, 0, ("a", "b", "c", "d"), images)


def fit(method: Method, phase: Phase, **options: int) -> list[StepReport]:
    log = Log()
    make_trainer(**options).fit(method, make_task(phase.data), phase, watchers=(log,))
    return log.reports


def player(parameters: list[nn.Parameter], loss: Callable[[Batch], Terms]) -> Player:
    return Player(parameters, loss, OptimizerConfig(lr=0.001, momentum=0))


# ------------------------------------------------------------------------------- the ordinary case


def test_a_phase_lowers_the_loss_and_reports_every_step() -> None:
    method = make_pixels(first=schedule(4, 8))
    reports = fit(method, method.phase("train", make_set(), method.config.first))
    assert [report.step for report in reports] == list(range(16))
    assert [report.epoch for report in reports] == [step // 4 for step in range(16)]
    assert [report.is_epoch_end for report in reports] == [step % 4 == 3 for step in range(16)]
    assert reports[-1].loss < reports[0].loss
    assert not method.training


def test_a_phase_cut_in_two_numbers_its_steps_and_rates_as_if_whole() -> None:
    method = make_pixels()
    steps = schedule(4, 8, momentum=0.0)
    cosine = steps.optimizer.model_copy(update={"schedule": "cosine"})
    whole = method.phase("train", make_set(), steps.model_copy(update={"optimizer": cosine}))
    later = fit(method, replace(whole, epochs=(2, 4)))
    assert [report.step for report in later] == list(range(8, 16))
    assert [report.lr for report in later] == [report.lr for report in fit(method, whole)[8:]]


def test_resuming_a_phase_in_the_middle_gives_the_same_bits() -> None:
    def run(resume_from: tuple[int, Arrays] | None) -> tuple[Pixels, dict[int, Arrays]]:
        method = make_pixels()
        method.classifier.weight.data.zero_()
        method.classifier.bias.data.zero_()
        saved: dict[int, Arrays] = {}

        def save(step: int, arrays: Arrays) -> None:
            saved[step] = {name: np.array(array) for name, array in arrays.items()}

        phase = method.phase("train", make_set(), schedule(3, 8, name="adam"))
        make_trainer(checkpoint_every_steps=5).fit(
            method, make_task(phase.data), phase, save=save, resume_from=resume_from
        )
        return method, saved

    straight, saved = run(None)
    assert sorted(saved) == [5, 10]  # not 12, the end of the phase
    for step, arrays in saved.items():
        resumed, _ = run((step, arrays))
        for expected, found in zip(flat_weights(straight), flat_weights(resumed), strict=True):
            assert torch.equal(expected, found)


@pytest.mark.parametrize("accumulate", [2, 3, 8])
def test_accumulation_equals_one_batch_for_a_network_without_batch_statistics(
    accumulate: int,
) -> None:
    whole, parted = make_pixels(), make_pixels()
    parted.load_state_dict(whole.state_dict())
    reports = fit(whole, whole.phase("train", make_set(), schedule(2, 7)))
    parts = fit(parted, parted.phase("train", make_set(), schedule(2, 7)), accumulate=accumulate)
    for one, many in zip(reports, parts, strict=True):
        assert many.terms == pytest.approx(one.terms, abs=1e-5)
    for expected, found in zip(flat_weights(whole), flat_weights(parted), strict=True):
        torch.testing.assert_close(expected, found, rtol=1e-4, atol=1e-6)


# ------------------------------------------------------------------------------ what phases can say


def test_two_players_alternate_and_each_moves_its_own_parameters_alone() -> None:
    method = make_pixels()
    weight, bias = method.classifier.weight, method.classifier.bias
    assert bias is not None
    moved: list[tuple[str, int]] = []
    before = {"weight": weight.detach().clone(), "bias": bias.detach().clone()}
    steps = iter(range(1000))

    def loss(name: str) -> Callable[[Batch], Terms]:
        def of(batch: Batch) -> Terms:
            moved.append((name, batch.step))
            return {name: F.cross_entropy(method.predict(batch.views), batch.labels)}

        return of

    class Watch:
        def on_step(self, report: StepReport) -> None:
            step = next(steps)
            assert torch.equal(before["weight"], weight) == bool(step % 2)
            assert torch.equal(before["bias"], bias) == bool(step % 3)
            before.update(weight=weight.detach().clone(), bias=bias.detach().clone())

    critic = replace(player([weight], loss("critic")), every=2)
    maker = replace(player([bias], loss("maker")), every=3)
    phase = Phase("play", make_set(), schedule(2, 8), (critic, maker))
    make_trainer().fit(method, make_task(phase.data), phase, watchers=(Watch(),))
    expected = [
        (name, step)
        for step in range(8)
        for name, every in (("critic", 2), ("maker", 3))
        if step % every == 0
    ]
    assert moved == expected


def test_gradients_can_be_projected_before_the_step() -> None:
    method = make_pixels()
    before = method.classifier.weight.detach().clone()

    def forbid_the_first_class() -> None:
        assert method.classifier.weight.grad is not None
        method.classifier.weight.grad[0] = 0

    fit(
        method,
        method.phase(
            "train",
            make_set(),
            schedule(1, 8, momentum=0.0),
            on_gradients=forbid_the_first_class,
        ),
    )
    assert torch.equal(method.classifier.weight[0], before[0])
    assert not torch.equal(method.classifier.weight[1], before[1])


def test_a_loss_may_differentiate_inside_for_a_meta_step() -> None:
    method = make_pixels()
    weight = method.classifier.weight

    def meta_loss(batch: Batch) -> Terms:
        flat = batch.views.flatten(1)
        inner = F.cross_entropy(F.linear(flat, weight), batch.labels)
        (slope,) = torch.autograd.grad(inner, weight, create_graph=True)
        return {"meta": F.cross_entropy(F.linear(flat, weight - 0.01 * slope), batch.labels)}

    meta = player([weight], meta_loss)
    reports = fit(method, Phase("meta", make_set(), schedule(4, 32), (meta,)))
    assert reports[-1].terms["meta"] < reports[0].terms["meta"]


def test_stored_pixels_can_be_optimised_as_a_parameter() -> None:
    method = make_pixels()
    method.pixels = nn.Parameter(torch.zeros(4, 3, 16, 16))
    weights = method.classifier.weight.detach().clone()

    def loss(batch: Batch) -> Terms:
        return {"fit": F.cross_entropy(method.predict(method.pixels), torch.arange(4))}

    phase = Phase("pixels", make_set(), schedule(5, 8), (player([method.pixels], loss),))
    reports = fit(method, phase)
    assert reports[-1].loss < reports[0].loss
    assert bool((method.pixels != 0).any())
    assert torch.equal(method.classifier.weight, weights)


def test_after_step_runs_after_the_weights_moved() -> None:
    method = make_pixels()
    weight = method.classifier.weight
    seen: list[torch.Tensor] = []
    one = player([weight], method.loss)
    one = replace(one, after_step=lambda: seen.append(weight.detach().clone()))
    before = weight.detach().clone()
    fit(method, Phase("train", make_set(), schedule(1, 32), (one,)))
    assert len(seen) == 1
    assert torch.equal(seen[0], weight)
    assert not torch.equal(seen[0], before)


# --------------------------------------------------------------------------------- what stays still


class WithNorm(Pixels):
    """Pixels behind a batch normalisation that a subclass may hold still."""

    holds_still = False

    def __init__(self) -> None:
        super().__init__(make_pixels().config, MethodContext((16, 16, 3), (4,), None))
        self.norm = nn.BatchNorm2d(3)
        self.classifier.grow(4)

    def features(self, views: torch.Tensor) -> torch.Tensor:
        return self.norm(views).flatten(1)

    def train(self, mode: bool = True) -> WithNorm:
        super().train(mode)
        if self.holds_still and hasattr(self, "norm"):
            self.norm.eval()
        return self


class WithStillNorm(WithNorm):
    holds_still = True


@pytest.mark.parametrize(("kind", "is_still"), [(WithNorm, False), (WithStillNorm, True)])
def test_batch_statistics_stay_where_the_method_says_so(
    kind: type[WithNorm], is_still: bool
) -> None:
    method = kind()
    fit(method, method.phase("train", make_set(), schedule(1, 8)))
    assert torch.equal(method.norm.running_mean, torch.zeros(3)) == is_still


def test_frozen_parameters_get_no_gradient_and_keep_every_bit() -> None:
    method = WithNorm()
    before = [parameter.detach().clone() for parameter in method.norm.parameters()]
    gradients: list[bool] = []

    def loss(batch: Batch) -> Terms:
        gradients.extend(parameter.requires_grad for parameter in method.norm.parameters())
        return method.loss(batch)

    phase = method.phase(
        "head", make_set(), schedule(1, 8), parameters=method.classifier.parameters(), loss=loss
    )
    fit(method, phase)
    assert not any(gradients)
    for old, now in zip(before, method.norm.parameters(), strict=True):
        assert torch.equal(old, now)
        assert now.grad is None
        assert now.requires_grad  # as it was before the phase


# ---------------------------------------------------------------------------------- what goes wrong


def test_a_loss_that_is_not_finite_names_itself_and_stops_before_the_weights_change() -> None:
    method = make_pixels()
    seen: list[list[torch.Tensor]] = []

    def loss(batch: Batch) -> Terms:
        seen.append(flat_weights(method))
        bad = torch.tensor(float("inf") if batch.step == 2 else 0.0)
        return {**method.loss(batch), "drift": bad}

    phase = method.phase("train", make_set(), schedule(2, 8), loss=loss)
    with pytest.raises(NonFiniteLossError, match=r"'drift' became inf in task 1, phase 'train', s"):
        fit(method, phase)
    assert len(seen) == 3
    for before, after in zip(seen[-1], flat_weights(method), strict=True):
        assert torch.equal(before, after)


def raise_at(step: int) -> Callable[[Batch], None]:
    def check(batch: Batch) -> None:
        if batch.step == step:
            raise KeyboardInterrupt

    return check


@pytest.mark.parametrize("raised_by", ["loss", "watcher"])
def test_an_exception_ends_the_thread_that_reads_ahead(raised_by: str) -> None:
    method = make_pixels()
    data = make_set()
    assert isinstance(data.images, ArrayImages)
    data = replace(data, images=LazyImages(data.images))
    check = raise_at(1)

    def loss(batch: Batch) -> Terms:
        if raised_by == "loss":
            check(batch)
        return method.loss(batch)

    class Watch:
        def on_step(self, report: StepReport) -> None:
            if raised_by == "watcher" and report.step == 1:
                raise KeyboardInterrupt

    phase = method.phase("train", data, schedule(2, 4), loss=loss)
    with pytest.raises(KeyboardInterrupt) as raised:
        make_trainer().fit(method, make_task(data), phase, watchers=(Watch(),))
    # The traceback is still held, and with it every frame: nothing relies on garbage collection.
    assert raised.tb is not None
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("remnant-feed")]


# --------------------------------------------------------------------------------------- evaluation


@pytest.mark.parametrize("num_classes", [3, 7])
def test_evaluation_gives_the_five_best_labels_best_first(num_classes: int) -> None:
    method = make_pixels(num_classes)
    images = make_set(3, 90)  # more than one batch
    found = make_trainer().evaluate(method, images)
    assert found.shape == (270, 5)
    views = make_trainer().reader.views(images.images.read(torch.arange(270)))
    scores = method.predict(views)
    order = scores.argsort(dim=1, descending=True)[:, :5]
    assert torch.equal(found[:, : min(5, num_classes)], order)
    assert (found[:, num_classes:] == -1).all()


def test_evaluation_uses_the_statistics_that_were_learned_and_moves_none() -> None:
    trainer, method = make_trainer(), make_residual("finetune")
    images = make_set(num_classes=4, per_class=2)
    method.begin_task(make_task(images), trainer.reader)
    with torch.no_grad():  # statistics far from those of a batch
        method.backbone.norm.running_mean += 3 * torch.randn(16)
    before = {name: one.clone() for name, one in method.state_dict().items()}
    method.eval()
    alone = [
        method.predict(trainer.reader.views(images.images.read(torch.tensor([place]))))
        for place in range(len(images))
    ]
    expected = torch.cat(alone).topk(4, dim=1).indices
    method.train()
    assert torch.equal(trainer.evaluate(method, images)[:, :4], expected)
    assert not method.training
    changed = [name for name, one in method.state_dict().items() if (one != before[name]).any()]
    assert changed == []


def test_the_reader_mirrors_and_inverts_views() -> None:
    reader = make_trainer().reader
    images = make_set(2, 3)
    plain = reader.apply(lambda views: views, images)
    mirrored = reader.apply(lambda views: views, images, mirrored=True)
    assert torch.equal(mirrored, plain.flip(3))
    assert torch.equal(reader.to_images(plain), images.images.read(torch.arange(6)))
    assert torch.equal(torch.cat(list(reader.images(images))), reader.to_images(plain))
