from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from remnant.methods import kept_bytes
from remnant.methods.gfr import slope_penalty
from remnant.recipes import load_recipe
from tests.support.small_bimae import make_batch, make_task, make_trainer
from tests.support.small_residual import (
    SCHEDULE,
    in_second_task,
    make_residual,
    slow_cross_entropy,
)
from tests.support.worlds import seeded

SMALL = {"num_noise": 6, "num_hidden": 8, "generation": SCHEDULE, "critic_steps": 2}
LABELS = torch.tensor([2, 3, 2])


def ready(**options: Any) -> Any:
    """In the second of two tasks of two classes, with weights that matter."""
    method = in_second_task(make_trainer(), "gfr", **SMALL, **options)
    source = seeded(4)
    for network in (method.generator, method.critic):
        for parameter in network.parameters():
            parameter.data.normal_(std=0.3, generator=source)
    return method


def normal(uniform: Tensor) -> Tensor:
    return torch.distributions.Normal(0.0, 1.0).icdf(uniform)


def test_the_first_task_is_plain_cross_entropy() -> None:
    method = make_residual("gfr", **SMALL)
    method.eval().begin_task(make_task(0), make_trainer().reader)
    batch = make_batch(labels=torch.tensor([0, 1, 1]))
    expected = slow_cross_entropy(method.predict(batch.views).detach(), [0, 1, 1])
    terms = method.loss(batch)
    assert set(terms) == {"classify"}
    assert terms["classify"].item() == pytest.approx(expected, rel=1e-5)


def test_later_tasks_weigh_real_generated_and_distance_by_the_old_tasks() -> None:
    """[gfr] (CE + n CE_old) / (n + 1) + n ||Z - Z_old||, one image after the other."""
    method = ready(feature_weight=0.5)
    method.num_old_tasks = 3.0  # as if there were six old classes
    for parameter in method.backbone.parameters():
        parameter.data += 0.01
    batch = make_batch(labels=LABELS)
    terms = method.loss(batch)
    features = method.backbone(batch.views).detach()
    scores = method.classifier(features).detach()
    assert terms["classify"].item() == pytest.approx(
        slow_cross_entropy(scores, LABELS.tolist()) / 4, rel=1e-4
    )
    labels = [int(2 * draw) for draw in batch.draw("replay labels").tolist()]
    noise = normal(batch.draw("replay noise", 6))
    fake = method.generator(noise, torch.tensor(labels))
    replayed = slow_cross_entropy(method.classifier(fake).detach(), labels)
    assert terms["replay"].item() == pytest.approx(3 * replayed / 4, rel=1e-3)
    before = method.teacher(batch.views)
    square = sum(
        (a - b) ** 2
        for row, old in zip(features.tolist(), before.tolist(), strict=True)
        for a, b in zip(row, old, strict=True)
    )
    assert terms["distill"].item() == pytest.approx(0.5 * 3 * math.sqrt(square), rel=1e-3)


def test_the_penalty_is_about_the_slope_of_the_score_at_each_vector() -> None:
    """[wgan-gp] by differences, one coordinate after the other."""
    weight = torch.randn(4, generator=seeded(1)).double()

    def judge(inputs: Tensor) -> Tensor:
        return (inputs * weight).sum(dim=1).sin() + inputs.square().sum(dim=1)

    inputs, step, total = torch.randn(3, 4, generator=seeded(2)).double(), 1e-6, 0.0
    for row in inputs:
        slopes = []
        for place in range(4):
            shift = step * torch.eye(4, dtype=torch.float64)[place]
            slopes.append(float(judge((row + shift)[None]) - judge((row - shift)[None])) / 2 / step)
        total += (math.hypot(*slopes) - 1) ** 2
    assert float(slope_penalty(judge, inputs).detach()) == pytest.approx(total / 3, rel=1e-5)


def test_the_critic_prefers_real_features() -> None:
    method, batch = ready(), make_batch(labels=LABELS)
    terms = method._criticise(batch)
    real = method.backbone(batch.views).detach()
    fake = method.generator(normal(batch.draw("fake noise", 6)), LABELS).detach()
    difference = 0.0
    for index in range(3):
        label = LABELS[index : index + 1]
        difference += float(method.critic(fake[index, None], label).detach()) / 3
        difference -= float(method.critic(real[index, None], label).detach()) / 3
    assert terms["criticise"].item() == pytest.approx(difference, rel=1e-3, abs=1e-5)
    share = batch.draw("mix", 1)
    between = share * real + (1 - share) * fake
    penalty = slope_penalty(lambda one: method.critic(one, LABELS), between)
    assert terms["penalty"].item() == pytest.approx(10 * float(penalty.detach()), rel=1e-3)


def test_the_generator_fools_the_critic_and_holds_old_classes() -> None:
    method, batch = ready(), make_batch(labels=LABELS)
    terms = method._generate(batch)
    fake = method.generator(normal(batch.draw("fake noise", 6)), LABELS)
    expected = -float(method.critic(fake, LABELS).mean().detach())
    assert terms["generate"].item() == pytest.approx(expected, rel=1e-3, abs=1e-5)
    noise = normal(batch.draw("hold noise", 6))
    labels = torch.tensor([int(2 * draw) for draw in batch.draw("hold labels").tolist()])
    now = method.generator(noise, labels).flatten().tolist()
    then = method.old_generator(noise, labels).flatten().tolist()
    total = sum((a - b) ** 2 for a, b in zip(now, then, strict=True))
    assert terms["hold"].item() == pytest.approx(1e-3 * 1.0 * total, rel=1e-3)


def test_each_adversary_moves_itself_alone_and_batch_statistics_stay() -> None:
    trainer = make_trainer()
    method, task = in_second_task(trainer, "gfr", **SMALL), make_task(1)
    for phase in method.phases(task, trainer.reader):
        before = {name: one.clone() for name, one in method.state_dict().items()}
        trainer.fit(method, task, phase)
        after = method.state_dict()
        changed = {name for name, one in after.items() if not torch.equal(one, before[name])}
        assert not any("running" in name for name in changed)  # the first task's, for good
        if phase.name == "generate":
            assert [player.every for player in phase.players] == [1, 2]
            assert {name.split(".")[0] for name in changed} == {"critic", "generator"}


def test_generator_and_critic_are_counted_beside_the_network() -> None:
    method = in_second_task(make_trainer(), "gfr", **SMALL)
    sizes = kept_bytes(method)
    for name in ("generator", "critic"):
        parameters = getattr(method, name).parameters()
        assert sizes[name] == 4 * sum(parameter.numel() for parameter in parameters)


@pytest.mark.parametrize(
    ("recipe", "num_new_images"), [("digits-gfr", 280), ("cifar100-mini-gfr", 1000)]
)
def test_short_recipes_leave_the_generator_hundreds_of_steps(
    recipe: str, num_new_images: int
) -> None:
    config: Any = load_recipe(recipe).method
    steps = config.generation.epochs * num_new_images // config.generation.batch_size
    assert steps // config.critic_steps >= 200
