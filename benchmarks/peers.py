"""How fast are iCaRL, replay and DER here, in Avalanche, and in a loop as PyCIL writes them?

    pip install avalanche-lib
    python benchmarks/peers.py
    python benchmarks/peers.py --methods er --network resnet32 --images 200

Every cell learns two tasks of five classes, one epoch each, with the same images, network, batch,
optimiser and memory, in a process of its own and with one thread, and tells the images per second
of the second task and the largest resident memory. Ratios are to remnant in the same round; cells
take turns, so that other load on the machine affects all alike. Nothing of a peer is part of this
project: where one is not installed, its row says so. The loop needs nothing: it is plain torch with
a DataLoader, PyCIL's way of writing a method, without its code.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import resource
import subprocess
import sys
import time
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import ConcatDataset, DataLoader, Dataset

from remnant.images import ArrayImages, ImageSet, Task
from remnant.memory import Memory, MemoryConfig
from remnant.methods import METHODS, MethodContext
from remnant.methods.backbones import BackboneConfig, build_backbone
from remnant.phases import StepReport
from remnant.training.batches import Preprocessing
from remnant.training.checkpoints import Point
from remnant.training.processes import Processes, TrainingConfig
from remnant.training.task_loop import TaskLoop
from remnant.training.trainer import Trainer
from remnant.views.augment import AugmentConfig

NAMES = {"icarl": "iCaRL", "er": "replay", "expandable": "DER"}
SIDE, CLASSES, EXEMPLARS, LR = 32, 5, 20, 0.01
MISSING = {"avalanche": "avalanche-lib is not installed (pip install avalanche-lib)"}
HEADER = "| method | program | images/s | of remnant's | MB | of remnant's |\n"
HEADER += "|---|---|---:|---:|---:|---:|"


class Epoch:
    """Images shown in an epoch of training, and its seconds; choosing exemplars is not part of it.

    It is also the watcher of a run of ours.
    """

    def __init__(self) -> None:
        self.images, self.seconds = 0, 0.0

    def on_step(self, report: StepReport) -> None:
        if report.phase != "train":  # DER tunes its classifier afterwards, the loop does not
            return
        self.images += report.images
        self.seconds += report.images / report.images_per_second


def images_of(task: int, per_class: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise, uint8 [N, 32, 32, 3], and labels."""
    chance = np.random.default_rng(task)
    pixels = chance.integers(0, 256, (CLASSES * per_class, SIDE, SIDE, 3), dtype=np.uint8)
    return pixels, np.repeat(np.arange(CLASSES), per_class) + task * CLASSES


# -------------------------------------------------------------------------------------- remnant


def run_remnant(method: str, arguments: argparse.Namespace) -> Epoch:
    optimizer = {"name": "sgd", "lr": LR, "momentum": 0.9, "schedule": "constant"}
    schedule = {"epochs": 1, "batch_size": arguments.batch_size, "optimizer": optimizer}
    values = {"first": schedule, "backbone": {"name": arguments.network}}
    config = METHODS[method].Config.parse(values)
    shape = (SIDE, SIDE, 3)
    memory = Memory(MemoryConfig(budget=f"{EXEMPLARS}images/class"), shape, seed=0)
    built = METHODS[method](config, MethodContext(shape, (CLASSES, CLASSES), memory))
    look = Preprocessing(AugmentConfig(train="crop-flip", padding=4), (0.5,) * 3, (0.25,) * 3)
    trainer = Trainer(Processes(TrainingConfig(accelerator="cpu", threads=1)), look, seed=0)
    loop = TaskLoop(built, trainer, None, 0, lambda *_: None)  # pyright: ignore[reportArgumentType]
    epoch = Epoch()
    for index in range(2):
        pixels, labels = images_of(index, arguments.images)
        ids = torch.arange(len(labels)) + index * len(labels)
        data = ImageSet(ArrayImages(torch.from_numpy(pixels)), torch.from_numpy(labels), ids)
        names = tuple(str(label) for label in range(index * CLASSES, (index + 1) * CLASSES))
        epoch = Epoch()
        loop.learn([Task(index, 2, index * CLASSES, names, data)], Point(index), (epoch,))
    return epoch


# ----------------------------------------------------------------------------------- plain loops


class Pictures(Dataset[tuple[Tensor, int]]):
    """One image at a time, cropped, mirrored and scaled by numpy, as transforms do."""

    def __init__(self, pixels: np.ndarray, labels: np.ndarray) -> None:
        self.pixels, self.labels = pixels, labels
        self.chance = np.random.default_rng(0)
        self.targets: list[int] = []

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        padded = np.pad(self.pixels[index], ((4, 4), (4, 4), (0, 0)))
        top, left = self.chance.integers(0, 9, 2)
        crop = padded[top : top + SIDE, left : left + SIDE]
        if self.chance.random() < 0.5:
            crop = crop[:, ::-1]
        view = torch.from_numpy(crop.transpose(2, 0, 1).astype(np.float32) / 255)
        return (view - 0.5) / 0.25, int(self.labels[index])


class Network(nn.Module):
    """Backbones side by side, of which the last one learns, and one linear classifier."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.backbones = nn.ModuleList()
        self.classifier: nn.Linear | None = None
        self.helper: nn.Linear | None = None

    def grow(self, num_classes: int, *, expands: bool) -> None:
        if expands or not self.backbones:
            for old in self.backbones:
                old.requires_grad_(False)
            built = build_backbone(BackboneConfig.parse({"name": self.name}), 3)
            self.backbones.append(built)
        width = sum(int(one.width) for one in self.backbones)  # pyright: ignore[reportArgumentType]
        self.classifier = nn.Linear(width, num_classes)
        if expands:
            self.helper = nn.Linear(int(self.backbones[-1].width), CLASSES + 1)  # pyright: ignore

    def features(self, views: Tensor) -> Tensor:
        return torch.cat([backbone(views) for backbone in self.backbones], dim=1)


def _loop_loss(
    method: str, network: Network, teacher: Network | None, views: Tensor, labels: Tensor
) -> Tensor:
    features = network.features(views)
    assert network.classifier is not None
    scores = network.classifier(features)
    loss = F.cross_entropy(scores, labels)
    if teacher is None:
        return loss
    num_old = CLASSES
    if method == "icarl":
        assert teacher.classifier is not None
        with torch.no_grad():
            old = teacher.classifier(teacher.features(views))
        soft = (old / 2).softmax(1)
        return loss - (soft * (scores[:, :num_old] / 2).log_softmax(1)).sum(1).mean()
    if method == "expandable":
        assert network.helper is not None
        own = features[:, -network.helper.in_features :]
        targets = torch.where(labels >= num_old, labels - num_old + 1, 0)
        return loss + F.cross_entropy(network.helper(own), targets)
    return loss


def run_loop(method: str, arguments: argparse.Namespace) -> Epoch:
    network, teacher, epoch = Network(arguments.network), None, Epoch()
    kept: list[Dataset[Any]] = []
    for index in range(2):
        network.grow((index + 1) * CLASSES, expands=method == "expandable")
        pixels, labels = images_of(index, arguments.images)
        data = ConcatDataset([Pictures(pixels, labels), *kept])
        moving = [one for one in network.parameters() if one.requires_grad]
        optimizer = torch.optim.SGD(moving, lr=LR, momentum=0.9)
        epoch, began = Epoch(), time.perf_counter()
        for views, targets in DataLoader(data, arguments.batch_size, shuffle=True):
            optimizer.zero_grad()
            _loop_loss(method, network.train(), teacher, views, targets).backward()
            optimizer.step()
            epoch.images += len(targets)
        epoch.seconds = time.perf_counter() - began
        teacher = copy.deepcopy(network).requires_grad_(False).eval()
        rows = np.flatnonzero(np.arange(len(labels)) % arguments.images < EXEMPLARS)
        kept.append(Pictures(pixels[rows], labels[rows]))
    return epoch


# ------------------------------------------------------------------------------------ Avalanche


def run_avalanche(method: str, arguments: argparse.Namespace) -> Epoch:
    from avalanche.benchmarks import benchmark_from_datasets  # pyright: ignore
    from avalanche.benchmarks.utils import as_classification_dataset  # pyright: ignore
    from avalanche.training.plugins import SupervisedPlugin  # pyright: ignore
    from avalanche.training.supervised import ICaRL, Replay  # pyright: ignore

    class Watch(SupervisedPlugin):
        epoch, began = Epoch(), 0.0

        def before_training_epoch(self, *_: Any, **__: Any) -> None:
            self.epoch, self.began = Epoch(), time.perf_counter()

        def after_training_iteration(self, strategy: Any, *_: Any, **__: Any) -> None:
            self.epoch.images += len(strategy.mbatch[0])

        def after_training_epoch(self, *_: Any, **__: Any) -> None:
            self.epoch.seconds = time.perf_counter() - self.began

    if method == "expandable":
        raise SystemExit("Avalanche has dark experience replay under that name, and no DER")
    backbone = build_backbone(BackboneConfig.parse({"name": arguments.network}), 3)
    head = nn.Linear(backbone.width, 2 * CLASSES)
    parameters = [*backbone.parameters(), *head.parameters()]
    optimizer, watch = torch.optim.SGD(parameters, lr=LR, momentum=0.9), Watch()
    # Replay adds as many exemplars to every batch: half a batch of new images is as large.
    size_of_batch = arguments.batch_size // (2 if method == "er" else 1)
    common: dict[str, Any] = {
        "train_mb_size": size_of_batch, "train_epochs": 1, "device": "cpu",
        "optimizer": optimizer, "evaluator": None, "plugins": [watch],
    }  # fmt: skip
    size = EXEMPLARS * CLASSES
    if method == "icarl":
        whole = nn.Sequential(head, nn.Sigmoid())
        strategy = ICaRL(
            feature_extractor=backbone, classifier=whole, memory_size=size, buffer_transform=None,
            fixed_memory=True, **common,
        )  # fmt: skip
    else:
        model = nn.Sequential(backbone, head)
        strategy = Replay(model=model, criterion=nn.CrossEntropyLoss(), mem_size=size, **common)
    sets = []
    for index in range(2):
        pixels, labels = images_of(index, arguments.images)
        pictures = Pictures(pixels, labels)
        pictures.targets = labels.tolist()
        sets.append(as_classification_dataset(pictures))
    for experience in benchmark_from_datasets(train=sets).train_stream:
        strategy.train(experience, num_workers=0)
    return watch.epoch


PROGRAMS = {"remnant": run_remnant, "loop": run_loop, "avalanche": run_avalanche}


# -------------------------------------------------------------------------------------- the table


def measure(program: str, method: str, arguments: argparse.Namespace) -> dict[str, float] | str:
    """The figures of one cell, from a process of its own; or why there are none."""
    if program in MISSING and importlib.util.find_spec(program) is None:
        return MISSING[program]
    command = [sys.executable, __file__, "--cell", program, "--methods", method]
    for name in ("network", "images", "batch_size"):
        command += [f"--{name.replace('_', '-')}", str(getattr(arguments, name))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it failed"])[-1]
    return json.loads(done.stdout.splitlines()[-1])


def run_cell(program: str, method: str, arguments: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    epoch = PROGRAMS[program](method, arguments)
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    print(json.dumps({"speed": epoch.images / epoch.seconds, "megabytes": peak / 1e6}))


def print_rows(method: str, rounds: list[dict[str, dict[str, float] | str]]) -> None:
    for program in PROGRAMS:
        cells = [one[program] for one in rounds]
        if isinstance(cells[0], str):
            print(f"| {NAMES[method]} | {program} | {cells[0]} | | | |", flush=True)
            continue
        figures = []
        for key in ("speed", "megabytes"):
            values = [cell[key] for cell in cells if not isinstance(cell, str)]
            ratios = [
                one[program][key] / one["remnant"][key]  # pyright: ignore
                for one in rounds
            ]
            figures += [f"{median(values):,.0f}", f"{median(ratios):.2f}"]
        print(f"| {NAMES[method]} | {program} | " + " | ".join(figures) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--methods", nargs="+", default=list(NAMES), choices=list(NAMES))
    parser.add_argument("--network", default="resnet32")
    parser.add_argument("--images", type=int, default=100, help="per class")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cell", help="measure this program in this process")
    arguments = parser.parse_args()
    if arguments.cell:
        run_cell(arguments.cell, arguments.methods[0], arguments)
        return
    print(HEADER, flush=True)
    for method in arguments.methods:
        rounds = [
            {program: measure(program, method, arguments) for program in PROGRAMS}
            for _ in range(arguments.rounds)
        ]
        print_rows(method, rounds)


if __name__ == "__main__":
    main()
