"""What does one more class cost a store: what the class brings, or what is stored already?

    python benchmarks/store_growth.py
    python benchmarks/store_growth.py --classes 10 1000 --updates 100 --profile

Stores are made of a given number of classes of 20 exemplars at 32 px, in one update or in several,
and `remnant learn` teaches each one class more, as often as asked: with nearest class means on a
frozen encoder, which trains nothing, so that all that follows the number of classes is ours. A
Markdown table tells the seconds of the processor, with one thread, of the best time; how many of
them are reading and writing the file, beside a plain copy of it; and the ratio to the smallest
store.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from remnant import Learner
from remnant.learner import learn_into_store
from remnant.learner.learner_state import LearnerState
from remnant.learner.store import read_store, write_store
from remnant.memory import Memory

EXEMPLARS, SIDE = 20, 32
HEADER = "| classes | updates | MB | copy, s | read, s | write, s | learn one class, s | ratio |\n"
HEADER += "|---:|---:|---:|---:|---:|---:|---:|---:|"


def images_of(label: int) -> np.ndarray:
    """Smooth noise, uint8 [20, 32, 32, 3]."""
    coarse = np.random.default_rng(label).integers(0, 256, (EXEMPLARS, SIDE // 4, SIDE // 4, 3))
    return coarse.repeat(4, axis=1).repeat(4, axis=2).astype(np.uint8)


def grown(first: LearnerState, num_classes: int, num_updates: int) -> LearnerState:
    """A state of many classes that all have the exemplars of the first."""
    names = tuple(f"class {label}" for label in range(num_classes))
    assert first.method.memory is not None, "the method keeps exemplars"
    arrays, header = first.method.memory.state_arrays()
    tiled = {name: np.tile(array, num_classes) for name, array in arrays.items()}
    tiled["labels"] = np.arange(num_classes)
    if "tables" in arrays:
        tiled["tables"] = arrays["tables"]
    header = header | {"names": names, "num_seen_classes": num_classes}
    method = first.copy_method()
    method.memory = Memory.from_arrays(tiled, header)
    width, held = method.sums.shape[1], torch.from_numpy(method.bank.of_class(0))
    method.sums = torch.randint(-999, 999, (num_classes, width), generator=torch.Generator())
    method.held_sums = held.sum(dim=0).repeat(num_classes, 1)
    method.bank.grow(num_classes - method.bank.num_classes)
    for label in range(1, num_classes):
        method.bank.add(label, held)
    sizes = [len(part) for part in np.array_split(np.arange(num_classes), num_updates)]
    entry = {**first.history[0], "classes": [], "images": 0}
    return replace(
        first, classes=names, task_sizes=tuple(sizes), history=(entry,) * num_updates, method=method
    )


def seconds(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def measure(state: LearnerState, folder: Path, times: int, is_profiled: bool) -> list[float]:
    """Bytes of the store, then the seconds that copying to learning take at best."""
    store, copy = folder / "a.remnant", folder / "b.remnant"
    writing = min(seconds(lambda: write_store(store, state)) for _ in range(times))
    reading = min(seconds(lambda: read_store(store)) for _ in range(times))
    copying = min(seconds(lambda: plain_copy(store, copy)) for _ in range(times))
    images, names = images_of(-1 % 2**32), ["one more"] * EXEMPLARS

    def learn() -> None:
        learn_into_store(copy, images, names, quiet=True, threads=1)

    learning = []
    for _ in range(times):
        shutil.copy(store, copy)
        learning.append(seconds(learn))
    if is_profiled:
        shutil.copy(store, copy)
        profile = cProfile.Profile()
        profile.runcall(learn)
        pstats.Stats(profile).sort_stats("cumulative").print_stats(45)
    return [store.stat().st_size, copying, reading, writing, min(learning)]


def plain_copy(source: Path, target: Path) -> None:
    """Through memory, as a store is read and written; `shutil.copy` leaves it to the system."""
    with source.open("rb") as old, target.open("wb") as new:
        while content := old.read(1 << 20):
            new.write(content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--classes", type=int, nargs="+", default=[10, 1000, 10_000])
    parser.add_argument("--updates", type=int, default=10, help="that the classes came in")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="tell where the time goes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    learner = Learner(
        "1MiB/class", method="ncm", image_size=SIDE, codec="jpeg", quiet=True, threads=1
    )
    first = learner.partial_fit(images_of(0), ["class 0"] * EXEMPLARS).state_
    print(HEADER, flush=True)
    least = None
    for num_classes in arguments.classes:
        state = grown(first, num_classes, arguments.updates)
        with tempfile.TemporaryDirectory() as folder:
            found = measure(state, Path(folder), arguments.times, arguments.profile)
        size, copying, reading, writing, learning = found
        least = least or learning
        cells = (f"{num_classes:,}", f"{arguments.updates:,}", f"{size / 1e6:,.0f}")
        cells += tuple(f"{one:.2f}" for one in (copying, reading, writing, learning))
        print("| " + " | ".join((*cells, f"{learning / least:.1f}")) + " |", flush=True)


if __name__ == "__main__":
    main()
