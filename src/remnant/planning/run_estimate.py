"""What a run will take, told before it starts and without data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from remnant.config import RunConfig
from remnant.data import describe_dataset
from remnant.data.stream import resolve_tasks
from remnant.methods import Method, build_method
from remnant.planning.flops import predict_flops, train_flops
from remnant.planning.memory_table import plan_memory
from remnant.training.task_loop import empty_tasks


def estimate(config: RunConfig) -> dict[str, Any]:
    """Everything `remnant show` prints besides the config; needs no data."""
    known = describe_dataset(config.data)
    shape = (known.image_size, known.image_size, known.channels)
    sizes = _task_sizes(config)
    method = build_method(config, shape, sizes)
    first, *later = empty_tasks(sizes, shape)
    method.grow(first)
    train = train_flops(method, shape, first.num_seen_classes)
    predict = predict_flops(method, shape)
    before = _num_parameters(method)
    method.to("meta")  # shapes alone: fifty networks side by side would take gigabytes
    with torch.device("meta"):
        for task in later:
            method.grow(task)
    added = 0  # by the last task to the arithmetic of an image, where the network itself grows
    if _num_parameters(method) > 1.1 * before:
        added = predict_flops(method, shape) - predict
    images = images_per_task(config)
    return {
        "dataset": asdict(known),
        "task_sizes": sizes,
        "parameters": _num_parameters(method),
        "flops_per_image": {"train": train, "predict": predict},
        "memory_plan": _memory_plan(config, shape, sizes, known.train_per_class),
        "train_images_per_task": images,
        "train_images": sum(images),
        "train_flops": sum(images) * train + _flops_of_growth(images, added),
    }


def _num_parameters(method: Method) -> int:
    return sum(parameter.numel() for parameter in method.parameters())


def _flops_of_growth(images: list[int], added: int) -> int:
    """What training takes more than with the first network: all old parts only predict.

    Networks grow evenly. Pruning is not foreseen, so this is the most that they can take.
    """
    last = max(1, len(images) - 1)
    return sum(count * added * index // last for index, count in enumerate(images))


def images_per_task(config: RunConfig) -> list[int]:
    """How many images, repeated ones included, training will see in each task; needs no data.

    Where classes differ in size, the mean stands for all; where exemplars do, they are left out.
    """
    known = describe_dataset(config.data)
    shape = (known.image_size, known.image_size, known.channels)
    sizes, per_class = _task_sizes(config), known.train_per_class
    memory_plan = _memory_plan(config, shape, sizes, per_class)
    counts = []
    for task in empty_tasks(sizes, shape):
        schedule = config.method.schedule(task)
        passed = task.num_new_classes * per_class
        if schedule.steps_from == "all" and memory_plan and task.index > 0:
            kept = memory_plan[task.index - 1]["exemplars_per_class"] or 0
            passed += kept * task.num_old_classes
        counts.append(passed * schedule.epochs)
    return counts


def _task_sizes(config: RunConfig) -> list[int]:
    return [len(task) for task in resolve_tasks(config.stream, describe_dataset(config.data))]


def _memory_plan(
    config: RunConfig, shape: tuple[int, int, int], sizes: list[int], per_class: int
) -> list[dict[str, Any]]:
    if config.memory is None:
        return []
    seen = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    return plan_memory(config.memory, shape, seen, per_class or None)
