"""Does the memory of a process grow with the classes that it replays, beyond what it stores?

    python benchmarks/flat_memory.py
    python benchmarks/flat_memory.py --classes 100 1000 --exemplars 80 --side 224

For each number of classes a process of its own fills a memory with coded patches of noise, lets a
small Bilateral MAE complete all exemplars, and reads batches of them as training does. Its largest
resident memory is told, beside what the exemplars take in the memory, decoded or completed. Most of
the time is spent on completing them.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys

import numpy as np
import torch

from remnant.images import Shape
from remnant.memory import Candidate, Memory, MemoryConfig
from remnant.memory import replay as replayed
from remnant.methods.redrawing import complete_set
from remnant.models.bilateral import BilateralMAE
from remnant.training import scratch
from remnant.training.batches import Preprocessing
from remnant.training.processes import Processes, TrainingConfig
from remnant.training.reader import ViewReader
from remnant.views.augment import AugmentConfig

PATCH, BATCHES, BATCH_SIZE = 16, 20, 64
HEADER = "| classes | exemplars | stored, MB | decoded, MB | largest resident, MB |\n"
HEADER += "|---:|---:|---:|---:|---:|"


def fill(num_classes: int, exemplars: int, shape: Shape) -> Memory:
    codec = {"name": "coded-patches", "through": "jpeg", "patch_size": PATCH}
    config = MemoryConfig.model_validate({"budget": f"{exemplars}images/class", "codec": codec})
    memory, chance = Memory(config, shape, seed=0), np.random.default_rng(0)
    for label in range(num_classes):
        images = chance.integers(0, 256, (exemplars, *shape), dtype=np.uint8)
        memory.add_class(label, str(label), map(Candidate, images))
    return memory


def replay(memory: Memory) -> None:
    """What a task does with its exemplars before and while it is trained."""
    network = BilateralMAE(
        image_shape=memory.image_shape, patch_size=PATCH, width=32, mlp_width=64,
        fusion_mlp_width=64, generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    look = Preprocessing(AugmentConfig(), (0.5,) * 3, (0.5,) * 3)
    reader = ViewReader(Processes(TrainingConfig(accelerator="cpu", threads=1)), look, 0)
    stored = memory.images()
    assert stored is not None, "the memory holds exemplars"
    completed, chance = complete_set(network.eval(), stored, reader), torch.Generator()
    for _ in range(BATCHES):
        completed.images.read(torch.randint(len(completed), (BATCH_SIZE,), generator=chance))


def measure(num_classes: int, exemplars: int, side: int) -> str:
    """A row of the table, from within a process of its own."""
    memory = fill(num_classes, exemplars, (side, side, 3))
    replay(memory)
    count = num_classes * exemplars
    # Kilobytes on Linux, bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    sizes = (memory.nbytes, count * side * side * 3, peak)
    cells = (f"{num_classes:,}", f"{count:,}", *(f"{size / 1e6:,.0f}" for size in sizes))
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--classes", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--exemplars", type=int, default=80, help="per class")
    parser.add_argument("--side", type=int, default=224, help="of an image, in pixels")
    parser.add_argument("--held-mb", type=int, help="images kept in memory; default: as in a run")
    parser.add_argument("--row", action="store_true", help="measure in this process: one row")
    arguments = parser.parse_args()
    if arguments.held_mb is not None:
        replayed.MAX_DECODED_BYTES = scratch.HELD_BYTES = arguments.held_mb << 20
    if arguments.row:
        print(measure(arguments.classes[0], arguments.exemplars, arguments.side))
        return
    print(HEADER, flush=True)
    for num_classes in arguments.classes:
        options = ["--exemplars", str(arguments.exemplars), "--side", str(arguments.side)]
        if arguments.held_mb is not None:
            options += ["--held-mb", str(arguments.held_mb)]
        command = [sys.executable, __file__, "--row", "--classes", str(num_classes), *options]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
