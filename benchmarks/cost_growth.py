"""What does a task cost: does it follow the images trained on, or the number of tasks as such?

    python benchmarks/cost_growth.py
    python benchmarks/cost_growth.py --tasks 2 10 --exemplars 0 10 --widths 32 --images 8

Real runs on 100 classes of 16 px images, one sweep per question, as a Markdown table. Times are of
the processor, with one thread, so that other programs disturb them little. "Train" is what passes
from step to step; "around" is all between the last step of one task and the first of the next: the
memory is filled, all classes seen are tested, a checkpoint is written, exemplars are completed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from PIL import Image

from remnant.config import RunConfig
from remnant.phases import StepReport
from remnant.runs.experiment import run

NUM_CLASSES, SIDE, TEST_PER_CLASS = 100, 16, 5
HEADER = "| method | width | tasks | exemplars per class | images per task | train, s per task |"
HEADER += " ms per image | around, s per task |\n|---|---:|---:|---:|---:|---:|---:|---:|"


def write_images(folder: Path, per_class: int) -> None:
    """Classes of one colour each, with noise."""
    chance = np.random.default_rng(0)
    for label in range(NUM_CLASSES):
        colour = chance.integers(32, 224, 3)
        for split, count in (("train", per_class), ("test", TEST_PER_CLASS)):
            place = folder / split / f"{label:03}"
            place.mkdir(parents=True)
            for index in range(count):
                noise = chance.integers(-32, 32, (SIDE, SIDE, 3))
                Image.fromarray((colour + noise).astype(np.uint8)).save(place / f"{index}.png")


def config_of(
    method: str, folder: Path, num_tasks: int, exemplars: int, width: int, epochs: int
) -> RunConfig:
    optimizer = {"name": "adam", "lr": 1e-4}
    values: dict[str, Any] = {"first": {"epochs": epochs, "batch_size": 20, "optimizer": optimizer}}
    memory: dict[str, Any] = {"budget": f"{exemplars}images/class"}
    if method == "bimae":
        values["network"] = {"width": width, "mlp_width": 4 * width, "fusion_mlp_width": 4 * width}
        quarter = SIDE * SIDE * 3 // 4  # bytes of the patches that are stored of an image
        memory = {"budget": f"{exemplars * quarter}B/class", "count_overhead": False}
        memory["codec"] = {"name": "patches", "patch_size": 4}
    else:
        values["backbone"] = {"name": "resnet8"}
        method = "er" if exemplars else "finetune"
    return RunConfig.parse(
        {
            "data": {"dataset": "folder", "path": str(folder), "image_size": SIDE},
            "stream": {"num_tasks": num_tasks},
            "method": {"name": method, **values},
            "memory": memory if exemplars else None,
            "training": {"accelerator": "cpu", "threads": 1},
        }
    )


@dataclass
class TaskCost:
    images: int = 0
    steps: list[float] = field(default_factory=list)  # seconds of all steps but the first
    first: float = 0.0  # seconds of the first step and of all since the last step before it

    @property
    def train(self) -> float:
        return sum(self.steps) + median(self.steps)

    @property
    def around(self) -> float:
        return self.first - median(self.steps)


class Costs:
    """Watches a run."""

    def __init__(self) -> None:
        self.tasks: list[TaskCost] = []
        self._before = time.process_time()

    def on_step(self, report: StepReport) -> None:
        now = time.process_time()
        passed, self._before = now - self._before, now
        if report.step == 0:
            self.tasks.append(TaskCost(first=passed))
        else:
            self.tasks[-1].steps.append(passed)
        self.tasks[-1].images += report.images


def measure(config: RunConfig) -> list[TaskCost]:
    costs = Costs()
    with tempfile.TemporaryDirectory() as folder:
        run(config, Path(folder) / "run", watchers=(costs,))
    return costs.tasks


def row(name: str, width: int | str, num_tasks: int, exemplars: int, tasks: list[TaskCost]) -> str:
    """The second task against the last: the first has no replay and pays for starting up."""
    early, late = tasks[1], tasks[-1]

    def pair(first: float, last: float, digits: int) -> str:
        return f"{first:,.{digits}f} to {last:,.{digits}f}"

    cells = (
        name,
        width,
        num_tasks,
        exemplars,
        pair(early.images, late.images, 0),
        pair(early.train, late.train, 2),
        pair(1000 * early.train / early.images, 1000 * late.train / late.images, 2),
        pair(early.around, late.around, 2),
    )
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def sweeps(arguments: argparse.Namespace) -> Iterator[tuple[str, int, int, int]]:
    """Method, number of tasks, exemplars per class and width of every run."""
    usual = sorted(arguments.exemplars)[len(arguments.exemplars) // 2]
    middle = sorted(arguments.tasks)[len(arguments.tasks) // 2]
    width = min(arguments.widths)
    yield from (("bimae", tasks, usual, width) for tasks in arguments.tasks)
    yield from (("bimae", middle, usual, other) for other in arguments.widths if other != width)
    yield from (("er", tasks, usual, 0) for tasks in arguments.tasks)
    yield from (("er", middle, other, 0) for other in arguments.exemplars if other != usual)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tasks", type=int, nargs="+", default=[2, 5, 10, 20, 50])
    parser.add_argument("--exemplars", type=int, nargs="+", default=[0, 10, 20, 40])
    parser.add_argument("--widths", type=int, nargs="+", default=[32, 64, 128])
    parser.add_argument("--images", type=int, default=40, help="training images per class")
    parser.add_argument("--epochs", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_images(folder, max(arguments.images, *arguments.exemplars))
        print(HEADER, flush=True)
        for method, num_tasks, exemplars, width in sweeps(arguments):
            config = config_of(method, folder, num_tasks, exemplars, width, arguments.epochs)
            costs = measure(config)
            print(
                row(config.method.name, width or "ResNet-8", num_tasks, exemplars, costs),
                flush=True,
            )


if __name__ == "__main__":
    main()
