"""events.jsonl: what happened in a run, a line each; its writer and its reader, without torch."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remnant.files import sync_folder

if TYPE_CHECKING:
    from remnant.phases import StepReport

EVENTS = "events.jsonl"

Json = dict[str, Any]
# What readers of an event count on.
_NUMBERS = {"task_begin": ["task"], "task_end": ["task", "accuracy"], "step": ["task", "step"]}
_OPTIONAL_NUMBERS = ("seconds", "num_steps", "loss")


@dataclass
class Counters:
    """What a run has done so far; travels in checkpoints."""

    events_bytes: int = 0
    train_images: int = 0
    train_seconds: float = 0.0
    task_seconds: float = 0.0  # of the task under way
    seconds_per_task: list[float] = field(default_factory=list)
    parameters_per_task: list[int] = field(default_factory=list)  # after each task
    predict_flops_per_task: list[int] = field(default_factory=list)  # per image
    working_bytes: int = 0  # of the last task's replay, beside the memory
    # None: unknown, since the run began with a version that did not count.
    train_flops: int | None = 0
    new_images_shown: int | None = 0  # in the task under way; repeated ones count again
    passes_over_new: list[float] = field(default_factory=list)  # of each task

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def add_flops(self, flops: int) -> None:
        if self.train_flops is not None:
            self.train_flops += flops

    def end_task(self, num_new_images: int) -> None:
        """Note how often each image of the task was shown, on average."""
        if self.new_images_shown is not None:
            self.passes_over_new.append(round(self.new_images_shown / num_new_images, 3))
            self.new_images_shown = 0


class EventLog:
    """Appends to events.jsonl, a line per few steps; on resume it is cut back to the checkpoint."""

    def __init__(self, folder: Path, counters: Counters, every_steps: int) -> None:
        self._counters = counters
        self._every_steps = every_steps
        path = folder / EVENTS
        self._is_named = path.exists()  # for good, also after a power cut
        self._folder = folder
        self._file = path.open("r+b" if path.exists() else "w+b")
        # A log that lost its end (or was deleted) goes on from its last whole line, and without
        # those that a power cut turned into something else.
        kept = self._file.read(counters.events_bytes)
        lines = kept[: kept.rfind(b"\n") + 1].splitlines(keepends=True)
        whole = b"".join(line for line in lines if _parse(line) is not None)
        if not kept.startswith(whole):
            self._file.seek(0)
            self._file.write(whole)
        counters.events_bytes = len(whole)
        self._file.seek(len(whole))
        self._file.truncate()

    def write(self, event: str, **values: Any) -> None:
        line = json.dumps({"event": event, **values}, allow_nan=False) + "\n"
        self._file.write(line.encode())
        self._file.flush()
        self._counters.events_bytes += len(line)

    def on_step(self, report: StepReport) -> None:
        self._counters.train_images += report.images
        self._counters.add_flops(report.flops)
        if self._counters.new_images_shown is not None:
            self._counters.new_images_shown += report.new_images
        self._counters.train_seconds += report.images / report.images_per_second
        is_last = report.step + 1 == report.num_steps
        if report.step % self._every_steps == 0 or is_last:
            self.write(
                "step",
                task=report.task,
                phase=report.phase,
                epoch=report.epoch,
                step=report.step,
                num_steps=report.num_steps,
                loss=round(report.loss, 6),
                terms={name: round(value, 6) for name, value in report.terms.items()},
                lr=report.lr,
                images_per_second=round(report.images_per_second, 1),
            )

    def sync(self) -> None:
        """Bring the lines to disk, where a checkpoint is about to count on them."""
        os.fsync(self._file.fileno())
        if not self._is_named:
            sync_folder(self._folder)
            self._is_named = True

    def close(self) -> None:
        self._file.close()


def read_events(path: Path) -> list[Json]:
    """The events of a run, without the lines that a killed process left cut off."""
    if not path.is_file():
        return []
    events = []
    # A run that was killed and resumed has its cut-off line in the middle, so any may be one.
    for line in path.read_bytes().splitlines():
        event = _parse(line)
        if event is not None and _is_whole(event):
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


def _is_whole(event: Json) -> bool:
    """Whether an event has what its readers count on; in a damaged file it may not."""
    needed = _NUMBERS.get(str(event.get("event")), [])
    values = [event.get(name) for name in needed]
    values += [event[name] for name in _OPTIONAL_NUMBERS if event.get(name) is not None]
    names, terms = event.get("class_names") or [], event.get("terms") or {}
    if not (isinstance(names, list) and isinstance(terms, dict)):
        return False
    values += [value for value in terms.values() if value is not None]
    is_numeric = all(isinstance(value, int | float) for value in values)
    return is_numeric and isinstance(event.get("phase", ""), str)


def _parse(line: bytes) -> Json | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None
