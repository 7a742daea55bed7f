"""The diary of a run: its events, and what they say of a run that has no result yet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def read_events(path: Path) -> list[Json]:
    """The events of a run, without the lines that a killed process left cut off."""
    if not path.is_file():
        return []
    events = []
    # A run that was killed and resumed has its cut-off line in the middle, so any may be one.
    for line in path.read_bytes().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


def result_so_far(config: Json, events: list[Json]) -> Json:
    """What the events of a run without result.json say about its completed tasks."""
    # Keyed by task: a task that was repeated after a resume counts once.
    begun = {event["task"]: event for event in events if event.get("event") == "task_begin"}
    ended = {event["task"]: event for event in events if event.get("event") == "task_end"}
    names = [list(begun[task].get("class_names", [])) for task in sorted(begun)]
    accuracies = [ended[task]["accuracy"] for task in sorted(ended)]
    return {
        "recipe": config.get("recipe") or "",
        "method": setting(config, "method.name") or "",
        "dataset": setting(config, "data.dataset") or "",
        "seed": config.get("seed"),
        "order": setting(config, "stream.order"),
        "task_sizes": [len(task_names) for task_names in names],
        "class_names": [name for task_names in names for name in task_names],
        "accuracies": accuracies,
        "average_accuracy": sum(accuracies) / len(accuracies) if accuracies else None,
        "last_accuracy": accuracies[-1] if accuracies else None,
        "seconds_per_task": [ended[task].get("seconds", 0.0) for task in sorted(ended)],
        "train_seconds": sum(ended[task].get("seconds", 0.0) for task in ended) or None,
        "finished": False,
    }


def setting(config: Json, name: str) -> Any:
    """The value at a dotted name such as `memory.budget`; None where there is none."""
    value: Any = config
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
