"""Are large images decoded as fast as a 224 px training step uses them up, in flat memory?

    python benchmarks/large_images.py --images 400 --side 500 --batch-size 32 --rounds 3

Writes JPEG files that compress like photographs into a temporary folder and feeds them to training
as a run does: dataset "folder", random resized crops of 224 px, two decoding workers. Prints how
many images per second the feed delivers and the steps of Bilateral MAE and ResNet-18 consume, all
measured in turns; how much longer a step takes that is fed from files than one fed from memory; and
how much memory a process holds that reads n, 2n and 4n images.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
import torch
from PIL import Image

from remnant.data import DataConfig, Dataset, load_dataset
from remnant.images import ArrayImages, ImageSet, Task
from remnant.memory import Memory, MemoryConfig
from remnant.methods import METHODS, Method, MethodContext
from remnant.phases import Batch, OptimizerConfig, Schedule, StepReport
from remnant.training.batches import Feeder, Preprocessing
from remnant.training.processes import Processes, TrainingConfig
from remnant.training.trainer import Trainer
from remnant.views.augment import AugmentConfig

SIZE = 224
NUM_CLASSES = 4
METHOD_SETTINGS = {
    "bimae": {"network": {"patch_size": 16}},  # the paper's network otherwise: width 384
    "er": {"backbone": {"name": "resnet18", "stem": "large"}},
}
LABELS = {"bimae": "Bilateral MAE, width 384, P = 16", "er": "ResNet-18"}


# ------------------------------------------------------------------------------------------ images


def photograph(width: int, height: int, chance: np.random.Generator) -> Image.Image:
    """Noise of all scales, finer ones weaker, as in photographs: about 0.4 bytes per pixel."""
    total = np.full((height, width, 3), 128, np.float32)
    side, strength = 4, 45.0
    while side < max(width, height):
        coarse = chance.normal(0, strength, (side, side, 3)).astype(np.float32)
        for channel in range(3):
            layer = Image.fromarray(np.ascontiguousarray(coarse[..., channel]))
            layer = layer.resize((width, height), Image.Resampling.BICUBIC)
            total[..., channel] += np.asarray(layer)
        side, strength = side * 2, strength * 0.8
    return Image.fromarray(np.clip(total, 0, 255).astype(np.uint8))


def write_photographs(folder: Path, count: int, side: int, distinct: int = 48) -> int:
    """`count` files of `NUM_CLASSES` classes, of `distinct` pictures; returns their mean bytes."""
    chance = np.random.default_rng(0)
    pictures = folder / "pictures"
    pictures.mkdir(parents=True)
    sizes = []
    for index in range(min(count, distinct)):
        path = pictures / f"{index}.jpg"
        photograph(side, side * 3 // 4, chance).save(path, quality=92)
        sizes.append(path.stat().st_size)
    for split, wanted in (("train", count), ("test", NUM_CLASSES)):
        for index in range(wanted):
            place = folder / "photos" / split / f"class {index % NUM_CLASSES}"
            place.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(pictures / f"{index % len(sizes)}.jpg", place / f"{index:06}.jpg")
    return sum(sizes) // len(sizes)


def load(folder: Path, workers: int, images: int | None = None) -> Dataset:
    per_class = None if images is None else images // NUM_CLASSES
    return load_dataset(
        DataConfig(
            dataset="folder",
            path=str(folder / "photos"),
            image_size=SIZE,
            images_per_class=per_class,
            workers=workers,
        )
    )


# ----------------------------------------------------------------------------------- feed and step


def look_of(dataset: Dataset) -> Preprocessing:
    return Preprocessing(AugmentConfig(train="resized-crop-flip"), dataset.mean, dataset.std)


def build_method(name: str, batch_size: int) -> Method:
    optimizer = OptimizerConfig(name="adam", lr=1e-6)
    schedule = Schedule(epochs=1000, batch_size=batch_size, optimizer=optimizer)
    values = {"name": name, "first": schedule, **METHOD_SETTINGS[name]}
    memory = Memory(MemoryConfig(budget="1images/class"), (SIZE, SIZE, 3), seed=0)
    world = MethodContext((SIZE, SIZE, 3), (NUM_CLASSES,), memory)
    return METHODS[name](METHODS[name].Config.model_validate(values), world)


def as_task(images: ImageSet) -> Task:
    return Task(0, 1, 0, tuple(f"class {label}" for label in range(NUM_CLASSES)), images)


class Enough(Exception):
    pass


@dataclass
class Stopwatch:
    """Watches training and ends it: seconds per step, without the first, which warms up."""

    steps: int
    began: float = 0.0
    seconds: float = 0.0

    def on_step(self, report: StepReport) -> None:
        now = time.perf_counter()
        if report.step == 0:
            self.began = now
        elif report.step == self.steps:
            self.seconds = (now - self.began) / self.steps
            raise Enough


def train_seconds(trainer: Trainer, method: Method, images: ImageSet, steps: int) -> float:
    """Seconds per step of real training, fed as a run feeds it."""
    watch = Stopwatch(steps)
    task = as_task(images)
    phase = next(method.phases(task, trainer.reader))
    try:
        trainer.fit(method, task, phase, watchers=(watch,))
    except Enough:
        return watch.seconds
    raise AssertionError("the schedule is longer than what is measured")


def batches(feeder: Feeder) -> Generator[list[Batch], None, None]:
    return feeder.batches(range(feeder.sampler.num_steps), range(1), 1)


def feed_seconds(feeder: Feeder, steps: int) -> float:
    """Seconds per batch when nobody trains on it."""
    with closing(batches(feeder)) as fed:
        next(fed)
        began = time.perf_counter()
        for _ in range(steps):
            next(fed)
        return (time.perf_counter() - began) / steps


def in_memory(images: ImageSet, count: int) -> ImageSet:
    """The first images, decoded once: what a step costs that waits for no file."""
    some = images.select(torch.arange(min(count, len(images))))
    return replace(some, images=ArrayImages(some.images.read(torch.arange(len(some)))))


def measure(folder: Path, batch_size: int, rounds: int, steps: int, workers: int) -> None:
    dataset = load(folder, workers)
    processes = Processes(TrainingConfig(accelerator="cpu"))
    look = look_of(dataset)
    trainer = Trainer(processes, look, seed=0)
    held = in_memory(dataset.train, 4 * batch_size)
    works: dict[str, Callable[[], float]] = {}
    for name in METHOD_SETTINGS:
        method = build_method(name, batch_size)
        method.begin_task(as_task(held), trainer.reader)
        phase = next(method.phases(as_task(dataset.train), trainer.reader))
        feeder = Feeder(phase, look, 0, processes.device)
        works |= {
            f"feed {name}": lambda feeder=feeder: feed_seconds(feeder, 4 * steps),
            f"held {name}": lambda m=method: train_seconds(trainer, m, held, steps),
            f"files {name}": lambda m=method: train_seconds(trainer, m, dataset.train, steps),
        }
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            seconds[name].append(work())
    speed = {name: batch_size / median(values) for name, values in seconds.items()}
    print(f"\nbatch {batch_size}, {workers} workers, {processes.threads} threads; images/s\n")
    print("| network | feed alone | step from memory | step from files | feed / step | slower by |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, label in LABELS.items():
        feed, held_speed, files = (speed[f"{kind} {name}"] for kind in ("feed", "held", "files"))
        slower = 100 * (held_speed / files - 1)
        ratio = feed / held_speed
        print(
            f"| {label} | {feed:.0f} | {held_speed:.1f} | {files:.1f} | {ratio:.0f} "
            f"| {slower:.1f} % |"
        )


# ------------------------------------------------------------------------------------------ memory


def resident_megabytes(name: str) -> float:
    """VmRSS or VmHWM of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1000


def feed_all(folder: Path, images: int, batch_size: int, workers: int) -> tuple[float, float]:
    """Resident memory after one pass over `images` images, and the most it was on the way."""
    Processes(TrainingConfig(accelerator="cpu", threads=1))  # sets memory up as a run does
    dataset = load(folder, workers, images)
    method = build_method("er", batch_size)
    task = as_task(dataset.train)
    phase = method.phase("train", task.train, method.config.first)
    feeder = Feeder(phase, look_of(dataset), 0, torch.device("cpu"))
    with closing(batches(feeder)) as fed:
        for _ in range(feeder.sampler.steps_per_epoch):
            next(fed)
        return resident_megabytes("VmRSS"), resident_megabytes("VmHWM")


def measure_memory(folder: Path, images: int, batch_size: int, workers: int) -> list[float]:
    """Resident megabytes after reading n, 2n and 4n images, each in a process of its own."""
    context = multiprocessing.get_context("spawn")
    print("\n| images read | resident, MB | at most, MB |\n|---:|---:|---:|")
    found = []
    for count in (images, 2 * images, 4 * images):
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            now, most = pool.submit(feed_all, folder, count, batch_size, workers).result()
        print(f"| {count} | {now:.0f} | {most:.0f} |", flush=True)
        found.append(now)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--images", type=int, default=400, help="n; four times as many are written")
    parser.add_argument("--side", type=int, default=500, help="longer side of the files, pixels")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=3, help="steps per round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write_photographs(folder, 4 * arguments.images, arguments.side)
        print(f"{4 * arguments.images} files of {arguments.side} px, {size:,} bytes on average")
        measure_memory(folder, arguments.images, arguments.batch_size, arguments.workers)
        measure(folder, arguments.batch_size, arguments.rounds, arguments.steps, arguments.workers)


if __name__ == "__main__":
    main()
