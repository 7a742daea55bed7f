"""What a run will take, told before it starts and without data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from remnant.config import RunConfig
from remnant.contracts import ArrayImages, ImageSet, Task
from remnant.costs import predict_flops, train_flops
from remnant.data import facts as dataset_facts
from remnant.experiment import build_method
from remnant.memory import plan
from remnant.stream import resolve_tasks


def estimate(config: RunConfig) -> dict[str, Any]:
    """Everything `remnant show` prints besides the config; needs no data."""
    known = dataset_facts(config.data)
    tasks = resolve_tasks(
        config.stream, known.num_classes, known.default_order, known.default_num_tasks
    )
    sizes = [len(task) for task in tasks]
    shape = (known.image_size, known.image_size, known.channels)
    method = build_method(config, shape, sizes)
    per_class = known.train_per_class
    memory_plan = _memory_plan(config, shape, sizes, per_class)
    train = predict = 0
    rows = []
    for task, remembered in zip(_empty_tasks(sizes, shape), [None, *memory_plan], strict=False):
        method.grow(task)
        if task.index == 0:
            train = train_flops(method, shape, task.num_seen_classes)
            predict = predict_flops(method, shape)
        exemplars = 0
        if remembered is not None and remembered["exemplars_per_class"] is not None:
            exemplars = remembered["exemplars_per_class"] * task.num_old_classes
        rows.append(_images_of_task(config, task, task.num_new_classes * per_class, exemplars))
    images = sum(rows)
    return {
        "dataset": asdict(known),
        "task_sizes": sizes,
        "parameters": sum(parameter.numel() for parameter in method.parameters()),
        "flops_per_image": {"train": train, "predict": predict},
        "memory_plan": memory_plan,
        "train_images_per_task": rows,
        "train_images": images,
        "train_flops": images * train,
    }


def _images_of_task(config: RunConfig, task: Task, num_new: int, num_exemplars: int) -> int:
    schedule = config.method.schedule(task)
    passed = num_new if schedule.steps_from == "new" else num_new + num_exemplars
    return passed * schedule.epochs


def _memory_plan(
    config: RunConfig, shape: tuple[int, int, int], sizes: list[int], per_class: int
) -> list[dict[str, Any]]:
    if config.memory is None:
        return []
    seen = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    return plan(config.memory, shape, seen, per_class or None)


def _empty_tasks(sizes: list[int], shape: tuple[int, int, int]) -> list[Task]:
    """Tasks as a method grows by them, without images."""
    nothing = ImageSet(
        ArrayImages(torch.empty(0, *shape, dtype=torch.uint8)),
        torch.empty(0, dtype=torch.int64),
        torch.empty(0, dtype=torch.int64),
    )
    return [
        Task(index, len(sizes), sum(sizes[:index]), tuple("?" * size), nothing)
        for index, size in enumerate(sizes)
    ]
