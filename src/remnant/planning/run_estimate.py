"""What a run will take, told before it starts and without data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import torch

from remnant.config import RunConfig
from remnant.data import DatasetFacts, describe_dataset
from remnant.data.stream import task_sizes
from remnant.images import Task
from remnant.methods import METHODS, Method, build_method, kept_bytes
from remnant.planning.flops import predict_flops, train_flops
from remnant.planning.memory_table import plan_memory
from remnant.planning.rehearsal import rehearse
from remnant.planning.workload import TaskSize, total_flops
from remnant.training.task_loop import empty_tasks

_USUAL_RATIO = 12  # of pixels to the bytes of a coded exemplar, where only data would tell


def estimate(config: RunConfig) -> dict[str, Any]:
    """Everything `remnant show` prints besides the config; needs no data."""
    known = describe_dataset(config.data)
    shape = known.image_shape
    sizes = task_sizes(config.stream, known)
    method = build_method(config, shape, sizes)
    first, *later = empty_tasks(sizes, shape)
    method.grow(first)
    train = train_flops(method, shape, first.num_seen_classes)
    predict = predict_flops(method, shape)
    _grow_in_shape(method, later)
    images = images_per_task(config)
    memory_plan = _memory_plan(config, shape, sizes, known.train_per_class)
    return {
        "dataset": asdict(known),
        "task_sizes": sizes,
        "cuts_network": method.cuts_network,  # then the next two are upper bounds
        "parameters": _num_parameters(method),
        "kept_bytes": _kept_beside_memory(method) | _memory_bytes(memory_plan),
        "flops_per_image": {"train": train, "predict": predict},
        "memory_plan": memory_plan,
        "train_images_per_task": images,
        "train_images": sum(images),
        "train_flops": run_flops(config, known, sizes, memory_plan),
    }


def kept_beside_memory(config: RunConfig) -> dict[str, int]:
    """What `kept_bytes` of the result will be, but for the exemplars; needs no data."""
    known = describe_dataset(config.data)
    shape = known.image_shape
    sizes = task_sizes(config.stream, known)
    method = build_method(config, shape, sizes)
    _grow_in_shape(method, empty_tasks(sizes, shape))
    return _kept_beside_memory(method)


def _grow_in_shape(method: Method[Any], tasks: Iterable[Task]) -> None:
    """Shapes alone: fifty networks side by side would take gigabytes."""
    method.to("meta")
    with torch.device("meta"):
        for task in tasks:
            method.grow(task)


def _kept_beside_memory(method: Method[Any]) -> dict[str, int]:
    return {name: count for name, count in kept_bytes(method).items() if name != "memory"}


def _memory_bytes(memory_plan: list[dict[str, Any]]) -> dict[str, int]:
    """At the end; where sizes of exemplars vary, at most. Without a limit nothing is known."""
    if not memory_plan:
        return {}
    most = memory_plan[-1]["total_bytes"] or memory_plan[-1]["budget_bytes"]
    return {} if most is None else {"memory": most}


def run_flops(
    config: RunConfig, known: DatasetFacts, sizes: list[int], memory_plan: list[dict[str, Any]]
) -> int:
    """What `train_flops` of the result will be, about."""
    real = _real_sizes(sizes, known, memory_plan)
    return total_flops(rehearse(config, known, len(sizes)), real)


def _real_sizes(
    sizes: list[int], known: DatasetFacts, memory_plan: list[dict[str, Any]]
) -> list[TaskSize]:
    image_bytes = known.image_size**2 * known.channels
    kept = [_exemplars(row, known.train_per_class, image_bytes) for row in memory_plan]
    kept = kept or [0.0] * len(sizes)
    return [
        TaskSize(
            num_new_classes=size,
            num_old_classes=sum(sizes[:index]),
            images_per_class=known.train_per_class,
            exemplars_before=kept[index - 1] if index > 0 else 0.0,
            exemplars_after=kept[index],
        )
        for index, size in enumerate(sizes)
    ]


def _exemplars(row: dict[str, Any], per_class: int, image_bytes: int) -> float:
    """Exemplars of a class; where their sizes vary, as many as of a usual size would fit."""
    if row["exemplars_per_class"] is not None:
        return row["exemplars_per_class"]
    if row["budget_bytes"] is None:
        return per_class
    fitting = row["budget_bytes"] / row["num_classes"] / (image_bytes / _USUAL_RATIO)
    return min(per_class, fitting)


def _num_parameters(method: Method) -> int:
    return sum(parameter.numel() for parameter in method.parameters())


def images_per_task(config: RunConfig) -> list[int]:
    """How many images, repeated ones included, training will see in each task; needs no data.

    Where classes differ in size, the mean stands for all; where exemplars do, a usual one.
    """
    known = describe_dataset(config.data)
    shape = known.image_shape
    sizes = task_sizes(config.stream, known)
    memory_plan = _memory_plan(config, shape, sizes, known.train_per_class)
    real = _real_sizes(sizes, known, memory_plan)
    counts = []
    for task, size in zip(empty_tasks(sizes, shape), real, strict=True):
        num_exemplars = size.exemplars_before * size.num_old_classes
        schedule = config.method.schedule_with(task, num_exemplars)
        passed = size.num_new_classes * size.images_per_class
        if schedule.steps_from == "all":
            passed += num_exemplars
        counts.append(round(passed * schedule.epochs))
    return counts


def _memory_plan(
    config: RunConfig, shape: tuple[int, int, int], sizes: list[int], per_class: int
) -> list[dict[str, Any]]:
    if config.memory is None:
        return []
    seen = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    side_bytes = METHODS[config.method.name].side_bytes
    return plan_memory(config.memory, shape, seen, per_class or None, side_bytes)
