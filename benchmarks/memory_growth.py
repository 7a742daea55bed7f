"""What does one more class cost: does it follow what the class brings, or what is stored already?

    python benchmarks/memory_growth.py
    python benchmarks/memory_growth.py --classes 100 500 --codec raw --budget total

Classes of random images are added to one memory. At each of the sizes asked for, a Markdown row
tells what the classes since the row before cost each; what it costs to add one more, to extend it,
to remove it and to ask for its room; and what digest, save and load take. Times are of the
processor, with one thread, so that other programs disturb them little.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch

from remnant.memory import Candidate, Memory, MemoryConfig

SHAPE = (32, 32, 3)
HEADER = (
    "| classes | fill, s | ms per class | one more, ms | extended, ms | removed, ms | room, ms "
    "| digest, s | save, s | load, s | MB |\n|---:|" + "---:|" * 10
)


def seconds(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


class Growth:
    """One memory that grows, and what it is asked on the way."""

    def __init__(self, memory: Memory, exemplars: int) -> None:
        self.memory, self.exemplars = memory, exemplars
        chance = np.random.default_rng(0)
        self.images = chance.integers(0, 256, (exemplars, *SHAPE), dtype=np.uint8)
        self.filled = 0.0

    def add(self, label: int) -> None:
        self.memory.add_class(label, f"class {label}", map(Candidate, self.images))

    def grow(self, num_classes: int) -> float:
        """Milliseconds per class that was added."""
        first = len(self.memory.labels)
        passed = seconds(lambda: [self.add(label) for label in range(first, num_classes)])
        self.filled += passed
        return 1000 * passed / (num_classes - first)

    def change(self) -> list[float]:
        """Milliseconds of one change of each kind, each the median of five."""
        label = len(self.memory.labels)
        extra = self.images[: self.exemplars // 2]
        memory = self.memory
        added, extended, removed, room = [], [], [], []
        for _ in range(5):
            added.append(seconds(lambda: self.add(label)))
            room.append(seconds(lambda: memory.room(label)))
            extended.append(seconds(lambda: memory.extend_class(label, map(Candidate, extra))))
            removed.append(seconds(lambda: memory.remove_class(label)))
        return [1000 * median(one) for one in (added, extended, removed, room)]

    def files(self, folder: Path) -> list[float]:
        path = folder / "memory.safetensors"
        digest = seconds(self.memory.digest)
        save = seconds(lambda: self.memory.save(path))
        return [digest, save, seconds(lambda: Memory.load(path))]

    def row(self, num_classes: int, folder: Path) -> str:
        each = self.grow(num_classes)
        cells = [f"{num_classes:,}", f"{self.filled:.1f}", f"{each:.2f}"]
        cells += [f"{one:.2f}" for one in self.change()]
        cells += [f"{one:.2f}" for one in self.files(folder)]
        return "| " + " | ".join([*cells, f"{self.memory.nbytes / 1e6:,.0f}"]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--classes", type=int, nargs="+", default=[100, 1_000, 5_000, 10_000])
    parser.add_argument("--exemplars", type=int, default=20, help="per class")
    parser.add_argument("--codec", default="patches")
    parser.add_argument("--budget", choices=["per-class", "total"], default="per-class")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    amount = f"{arguments.exemplars}images"  # more than patches or coded images need
    if arguments.budget == "total":  # which the last third of the classes must make room for
        amount = f"{arguments.exemplars * max(arguments.classes) // 6}images"
    budget = amount if arguments.budget == "total" else f"{amount}/class"
    memory = Memory(MemoryConfig(budget=budget, codec=arguments.codec), SHAPE, seed=0)
    growth = Growth(memory, arguments.exemplars)
    print(HEADER, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for num_classes in sorted(arguments.classes):
            print(growth.row(num_classes, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
