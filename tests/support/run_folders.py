"""Run folders as the training side would write them, without training."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from remnant.runs.run_folder import write_predictions

WriteRun = Callable[..., Path]

MEMORY_SETTINGS = {
    "budget": "60KiB/class",
    "codec": {"name": "raw"},
    "selection": "herding",
    "count_overhead": True,
}
NO_MEMORY = {"budget_bytes": 0, "used_bytes": 0, "exemplars_per_class": [], "ledger": {}}


def write_run_folder(
    folder: Path,
    *,
    method: str = "er",
    dataset: str = "digits",
    seed: int = 0,
    order: str = "identity",
    num_tasks: int = 3,
    num_done: int | None = None,
    accuracies: list[float] | None = None,
    class_names: list[str] | None = None,
    with_memory: bool = True,
    settings: dict[str, Any] | None = None,
    result: dict[str, Any] | None = None,
) -> Path:
    """Tasks of two classes; task j loses 10 points with every later task unless told otherwise."""
    done = num_tasks if num_done is None else num_done
    names = class_names or [f"class {index}" for index in range(2 * num_tasks)]
    matrix = [
        [max(0.0, 98.0 - 10 * (row - column)) for column in range(row + 1)] for row in range(done)
    ]
    means = accuracies or [sum(row) / len(row) for row in matrix]
    forgetting = [10.0 * (done - 1 - task) for task in range(done - 1)]
    used = 122_000 * num_tasks
    memory = {
        "budget_bytes": 122_880 * num_tasks,
        "used_bytes": used,
        "exemplars_per_class": [20, 19] * num_tasks,
        "ledger": {"payload": used - 48, "positions": 0, "lengths": 48, "labels": 0,
                   "fixed": {"names": 90, "header": 210}},
        "digest": "c0ffee",
    }  # fmt: skip
    config = {
        "recipe": f"{dataset}-{method}",
        "seed": seed,
        "data": {"dataset": dataset, "root": str(folder.parent)},
        "stream": {"order": order, "num_tasks": num_tasks},
        "memory": MEMORY_SETTINGS if with_memory else None,
        "method": {"name": method},
        "training": {"epochs": 5},
    }  # fmt: skip
    values = {
        "recipe": f"{dataset}-{method}", "method": method, "dataset": dataset, "seed": seed,
        "order": order, "task_sizes": [2] * num_tasks, "class_names": names,
        "accuracy_matrix": matrix, "accuracies": means, "top5_accuracies": [100.0] * done,
        "average_accuracy": sum(means) / len(means) if means else None,
        "last_accuracy": means[-1] if means else None,
        "forgetting": sum(forgetting) / len(forgetting) if forgetting else 0.0,
        "forgetting_per_task": forgetting, "backward_transfer": -13.3, "top5_average": 100.0,
        "parameters": 464_154, "flops_per_image": {"predict": 1.4e8, "train": 4.2e8},
        "density": None, "memory": memory if with_memory else NO_MEMORY,
        "train_seconds": 75.2, "train_images_per_second": 812.0,
        "seconds_per_task": [25.1] * done, "finished": done == num_tasks,
    }  # fmt: skip
    folder.mkdir(parents=True)
    _write_json(folder / "config.json", config | (settings or {}))
    environment = {"remnant": "0.1.0", "packages": {"numpy": "2"}, "cores": 2}
    _write_json(folder / "environment.json", environment)
    _write_json(folder / "result.json", values | (result or {}))
    _write_events(folder / "events.jsonl", names, means)
    _write_predictions(folder, done)
    return folder


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))


def _write_events(path: Path, names: list[str], accuracies: list[float]) -> None:
    events: list[dict[str, Any]] = []
    for task, accuracy in enumerate(accuracies):
        new_names = names[2 * task : 2 * task + 2]
        events.append({"event": "task_begin", "task": task, "class_names": new_names})
        for step in range(0, 40, 2):
            terms = {"classify": 2.0 * 0.95**step, "distill": 0.5 * 0.97**step}
            events.append({"event": "step", "task": task, "phase": "train", "epoch": step // 8,
                           "step": step, "num_steps": 40, "loss": sum(terms.values()),
                           "terms": terms})  # fmt: skip
        events.append({"event": "task_end", "task": task, "accuracy": accuracy, "seconds": 25.1})
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


def _write_predictions(folder: Path, num_done: int) -> None:
    for task in range(num_done):
        labels = np.repeat(np.arange(2 * task + 2), 10)
        guesses = np.where(np.arange(len(labels)) % 4 == 0, 2 * task + 1, labels)
        top5 = np.full((len(labels), 5), -1)
        top5[:, 0] = guesses
        write_predictions(folder, task, top5, labels)
