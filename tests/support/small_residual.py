"""Methods with a ResNet-8, on two tasks of two classes of noise: small enough to watch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from remnant.memory import Memory, MemoryConfig
from remnant.methods import METHODS, Method, MethodContext
from remnant.training.trainer import Trainer
from tests.support.small_bimae import SHAPE, make_task
from tests.support.step_log import Log
from tests.support.worlds import SEED_OFFSET, seeded

SCHEDULE = {"epochs": 1, "batch_size": 4, "optimizer": {"name": "sgd", "lr": 0.05}}


def make_residual(name: str, *, codec: Any = "raw", **options: Any) -> Any:
    """A method before its first task; with a memory of three images per class if it wants one."""
    settings = {"name": name, "backbone": {"name": "resnet8"}, "first": SCHEDULE, **options}
    memory = None
    if METHODS[name].uses_memory:
        config = MemoryConfig.model_validate({"budget": "3images/class", "codec": codec})
        memory = Memory(config, SHAPE, seed=3)
    torch.manual_seed(SEED_OFFSET + 5)
    return METHODS[name](
        METHODS[name].Config.model_validate(settings), MethodContext(SHAPE, (2, 2), memory)
    )


def learn_task(method: Method, index: int, trainer: Trainer) -> Log:
    """The first or the second task, from beginning to end."""
    task, log = make_task(index), Log()
    torch.manual_seed(SEED_OFFSET + index)
    method.begin_task(task, trainer.reader)
    for phase in method.phases(task, trainer.reader):
        trainer.fit(method, task, phase, watchers=(log,))
    method.eval().end_task(task, trainer.reader)
    return log


def in_second_task(trainer: Trainer, name: str, **options: Any) -> Any:
    """A method that has learned the first task and begun the second, in evaluation mode."""
    method = make_residual(name, **options)
    learn_task(method, 0, trainer)
    method.eval().begin_task(make_task(1), trainer.reader)
    return method


def move_from_teacher(method: Any) -> None:
    """Change the network, so that what is 0 where student and teacher are equal is not."""
    with torch.no_grad():
        weight = method.backbone.conv.weight
        weight += 0.5 * torch.randn(weight.shape, generator=seeded(6))


def softmax(scores: Sequence[float], temperature: float = 1.0) -> list[float]:
    powers = [math.exp(score / temperature) for score in scores]
    return [power / sum(powers) for power in powers]


def slow_cross_entropy(scores: Tensor, labels: Sequence[int]) -> float:
    """Mean over the images, one by one."""
    rows = scores.tolist()
    losses = [-math.log(softmax(row)[label]) for row, label in zip(rows, labels, strict=True)]
    return sum(losses) / len(losses)


def slow_distillation(scores: Tensor, teacher_scores: Tensor, temperature: float) -> float:
    """Cross-entropy of the softened student under the softened teacher, over the old classes."""
    total = 0.0
    for row, old in zip(scores.tolist(), teacher_scores.tolist(), strict=True):
        student, teacher = softmax(row[: len(old)], temperature), softmax(old, temperature)
        total -= sum(p * math.log(q) for p, q in zip(teacher, student, strict=True))
    return total / len(scores)


def slow_sigmoid_loss(
    scores: Tensor, labels: Sequence[int], teacher_scores: Tensor | None, num_classes: int
) -> float:
    """[icarl] one term per image and output; old outputs follow the teacher, others the label."""
    total = 0.0
    for image, row in enumerate(scores.tolist()):
        for output, score in enumerate(row):
            target = float(labels[image] == output)
            if teacher_scores is not None and output < teacher_scores.shape[1]:
                target = 1 / (1 + math.exp(-float(teacher_scores[image, output])))
            chance = 1 / (1 + math.exp(-score))
            total -= target * math.log(chance) + (1 - target) * math.log(1 - chance)
    return total / (len(scores) * num_classes)
