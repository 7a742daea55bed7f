"""What a run writes about itself: environment, events, predictions and result."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from remnant import metrics
from remnant._version import __version__
from remnant.archives import read_archive, write_archive
from remnant.config import RunConfig
from remnant.data import DATASETS
from remnant.data.stream import TaskStream
from remnant.files import write_json
from remnant.training.processes import TrainingConfig, acceleration_of
from remnant.training.trainer import StepReport

_PACKAGES = (
    "torch",
    "numpy",
    "lightning-fabric",
    "pydantic",
    "pillow",
    "safetensors",
    "scikit-learn",
)


def write_environment(folder: Path, training: TrainingConfig) -> None:
    """Versions, machine, what is used of it, and commit, before training starts."""
    write_json(
        folder / "environment.json",
        {
            "remnant": __version__,
            "commit": _commit(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "packages": {name: importlib.metadata.version(name) for name in _PACKAGES},
            "platform": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "accelerators": [
                torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())
            ],
            "acceleration": asdict(acceleration_of(training)),
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        },
    )


def _commit() -> str | None:
    """The commit of a source checkout; None for an installed package."""
    here = Path(__file__).parents[1]
    if not (here.parents[1] / ".git").exists():
        return None
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


@dataclass
class Progress:
    """What a run has done so far; travels in checkpoints."""

    events_bytes: int = 0
    train_images: int = 0
    train_seconds: float = 0.0
    task_seconds: float = 0.0  # of the task under way
    seconds_per_task: list[float] = field(default_factory=list)
    parameters_per_task: list[int] = field(default_factory=list)  # after each task
    predict_flops_per_task: list[int] = field(default_factory=list)  # per image
    working_bytes: int = 0  # of the last task's replay, beside the memory

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Progress:
        return cls(**values)


class EventLog:
    """events.jsonl: a line per few steps, flushed at once; rewound to the checkpoint on resume."""

    def __init__(self, folder: Path, progress: Progress, every_steps: int) -> None:
        self._progress = progress
        self._every_steps = every_steps
        path = folder / "events.jsonl"
        self._file = path.open("r+b" if path.exists() else "w+b")
        # A log that lost its end (or was deleted) goes on from its last whole line.
        kept = self._file.read(progress.events_bytes)
        progress.events_bytes = kept.rfind(b"\n") + 1
        self._file.seek(progress.events_bytes)
        self._file.truncate()

    def write(self, event: str, **values: Any) -> None:
        line = json.dumps({"event": event, **values}, allow_nan=False) + "\n"
        self._file.write(line.encode())
        self._file.flush()
        self._progress.events_bytes += len(line)

    def on_step(self, report: StepReport) -> None:
        self._progress.train_images += report.images
        self._progress.train_seconds += report.images / report.images_per_second
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

    def close(self) -> None:
        self._file.close()


def write_predictions(folder: Path, task_index: int, top5: np.ndarray, labels: np.ndarray) -> None:
    """The five best labels of every test image after a task; all accuracies come from these."""
    write_archive(
        folder / "predictions" / f"task-{task_index:03d}.safetensors",
        "predictions",
        1,
        {"top5": top5.astype(np.int32), "labels": labels.astype(np.int32)},
        {"task": task_index},
    )


def read_predictions(folder: Path, num_tasks: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Top-5 labels and true labels after each of the first `num_tasks` tasks."""
    found = []
    for index in range(num_tasks):
        path = folder / "predictions" / f"task-{index:03d}.safetensors"
        arrays, _ = read_archive(path, "predictions", 1)
        found.append((arrays["top5"], arrays["labels"]))
    return found


def write_result(
    folder: Path,
    config: RunConfig,
    stream: TaskStream,
    progress: Progress,
    num_tasks_done: int,
    facts: dict[str, Any],
) -> dict[str, Any]:
    """result.json so far, from the saved predictions and what the run knows besides (`facts`)."""
    predictions = read_predictions(folder, num_tasks_done)
    order = config.stream.order
    if order == "default" and config.stream.task_classes is None:
        order = DATASETS[config.data.dataset].facts.default_order
    result = {
        "recipe": config.recipe,
        "method": config.method.name,
        "dataset": config.data.dataset,
        "seed": config.seed,
        "order": order,
        "task_sizes": list(stream.task_sizes),
        "class_names": list(stream.class_names),
        **metrics.summary(predictions, stream.task_of_label),
        **facts,
        "train_seconds": round(progress.train_seconds, 3),
        "train_images_per_second": round(
            progress.train_images / max(progress.train_seconds, 1e-9), 2
        ),
        "seconds_per_task": [round(seconds, 3) for seconds in progress.seconds_per_task],
        "parameters_per_task": progress.parameters_per_task,
        "predict_flops_per_task": progress.predict_flops_per_task,
        "finished": False,
    }
    write_json(folder / "result.json", result)
    return result
