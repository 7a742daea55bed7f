"""Does the memory of a process grow with the classes that it replays?

    python benchmarks/flat_memory.py
    python benchmarks/flat_memory.py --classes 100 1000 --exemplars 80 --side 224
    python benchmarks/flat_memory.py --classes 100 1000 --completed 2000

For each number of classes a process of its own fills a memory with patches of noise, saves it,
loads it again as a resumed run does, lets a small Bilateral MAE complete its exemplars, and reads
batches of them as training does. Told are the largest resident memory of this process alone (VmHWM
of Linux) and the largest part of it that belongs to no file (RssAnon), which the system cannot take
back; beside them what the exemplars take, stored and decoded. Completing them takes most of the
time.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import torch

from remnant import long_rows
from remnant.images import Shape
from remnant.memory import Candidate, Memory, MemoryConfig
from remnant.memory import replay as replayed
from remnant.methods.redrawing import complete_set
from remnant.models.bilateral import BilateralMAE
from remnant.training.batches import Preprocessing
from remnant.training.processes import Processes, TrainingConfig
from remnant.training.reader import ViewReader
from remnant.views.augment import AugmentConfig

PATCH, BATCHES, BATCH_SIZE = 16, 20, 64
HEADER = (
    "| classes | exemplars | stored, MB | decoded, MB | largest resident, MB | of no file, MB |\n"
)
HEADER += "|---:|---:|---:|---:|---:|---:|"


class Peak:
    """The largest anonymous memory of this process within a block, by looking every 20 ms."""

    def __enter__(self) -> Peak:
        self.bytes, self._ended = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._ended.wait(0.02):
            self.bytes = max(self.bytes, status("RssAnon"))

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def status(name: str) -> int:
    """Bytes that Linux tells of this process."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None, f"/proc/self/status has {name}"
    return 1024 * int(found[1])


def fill(num_classes: int, exemplars: int, shape: Shape) -> Memory:
    codec = {"name": "patches", "patch_size": PATCH}
    config = MemoryConfig.model_validate({"budget": f"{exemplars}images/class", "codec": codec})
    memory, chance = Memory(config, shape, seed=0), np.random.default_rng(0)
    for label in range(num_classes):
        images = chance.integers(0, 256, (exemplars, *shape), dtype=np.uint8)
        memory.add_class(label, str(label), map(Candidate, images))
    return memory


def reloaded(memory: Memory) -> Memory:
    """Saved and loaded, as at the end of a task and the start of a resumed run."""
    with tempfile.TemporaryDirectory() as folder:
        memory.save(Path(folder) / "memory")
        return Memory.load(Path(folder) / "memory")


def replay(memory: Memory, num_completed: int | None) -> None:
    """What a task does with its exemplars before and while it is trained."""
    network = BilateralMAE(
        image_shape=memory.image_shape, patch_size=PATCH, width=32, mlp_width=64,
        fusion_mlp_width=64, generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    look = Preprocessing(AugmentConfig(), (0.5,) * 3, (0.5,) * 3)
    reader = ViewReader(Processes(TrainingConfig(accelerator="cpu", threads=1)), look, 0)
    stored = memory.images()
    assert stored is not None, "the memory holds exemplars"
    some = stored.select(torch.arange(len(stored))[:num_completed])
    completed, chance = complete_set(network.eval(), some, reader), torch.Generator()
    for images in (stored, completed):
        for _ in range(BATCHES):
            images.images.read(torch.randint(len(images), (BATCH_SIZE,), generator=chance))


def measure(num_classes: int, exemplars: int, side: int, num_completed: int | None) -> str:
    """A row of the table, from within a process of its own."""
    with Peak() as peak:
        memory = reloaded(fill(num_classes, exemplars, (side, side, 3)))
        replay(memory, num_completed)
    count = num_classes * exemplars
    sizes = (memory.nbytes, count * side * side * 3, status("VmHWM"), peak.bytes)
    cells = (f"{num_classes:,}", f"{count:,}", *(f"{size / 1e6:,.0f}" for size in sizes))
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--classes", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--exemplars", type=int, default=80, help="per class")
    parser.add_argument("--side", type=int, default=224, help="of an image, in pixels")
    parser.add_argument("--completed", type=int, help="of the exemplars; default: all")
    parser.add_argument("--held-mb", type=int, help="images kept in memory; default: as in a run")
    parser.add_argument("--row", action="store_true", help="measure in this process: one row")
    arguments = parser.parse_args()
    if arguments.held_mb is not None:
        replayed.MAX_DECODED_BYTES = long_rows.HELD_BYTES = arguments.held_mb << 20
    if arguments.row:
        sizes = (arguments.classes[0], arguments.exemplars, arguments.side)
        print(measure(*sizes, arguments.completed))
        return
    print(HEADER, flush=True)
    for num_classes in arguments.classes:
        options = ["--exemplars", str(arguments.exemplars), "--side", str(arguments.side)]
        for option in ("completed", "held_mb"):
            if (value := getattr(arguments, option)) is not None:
                options += [f"--{option.replace('_', '-')}", str(value)]
        command = [sys.executable, __file__, "--row", "--classes", str(num_classes), *options]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
