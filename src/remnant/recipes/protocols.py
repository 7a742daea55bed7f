"""Protocols: what is learned in which order, from which images, and in how many bytes.

A recipe is a protocol and a preset, which brings the method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from remnant.data import DataConfig
from remnant.data.stream import StreamConfig
from remnant.phases import OptimizerConfig, Schedule
from remnant.views.augment import AugmentConfig

Scale = Literal["digits", "mini", "lite", "folder", "cifar100", "imagenet"]


@dataclass(frozen=True)
class Protocol:
    """All of a run but its method. Its recipes are named `<start>-<preset><end>`."""

    start: str
    title: str  # for people
    scale: Scale  # which of a preset's setups it takes
    data: DataConfig
    stream: StreamConfig
    augment: AugmentConfig
    budget: str  # `memory.budget`, unless a setup has its own
    takes: str = ""  # how long, where that is known
    end: str = ""

    @property
    def name(self) -> str:
        return self.start + self.end


def _mini(dataset: str, title: str) -> Protocol:
    """The first 10 classes of the default order in 5 tasks of 2, at 32 px.

    All their training and test images, 60 KiB of memory per class counted strictly, and for every
    method and codec the same number of steps per task (`mini_schedule`), or as
    many cheaper ones as take the same arithmetic.
    """
    return Protocol(
        f"{dataset}-mini",
        f"{title} mini",
        "mini",
        DataConfig(dataset=dataset, image_size=32),
        StreamConfig(num_classes=10, num_tasks=5),
        AugmentConfig(train="crop-flip", padding=4),
        "60KiB/class",
        "ten to forty minutes on two cores",
    )


def _lite(end: str, num_tasks: int) -> Protocol:
    """The paper's streams and its 20 images per class, with networks and schedules for two cores.

    Every method has its setup of the mini protocol, in a fifth of the epochs.
    """
    return Protocol(
        "cifar100-lite",
        "CIFAR-100 lite",
        "lite",
        DataConfig(dataset="cifar100"),
        StreamConfig(num_tasks=num_tasks),
        AugmentConfig(train="crop-flip", padding=4),
        "20images/class",
        "half an hour to two hours on one core",
        end,
    )


def _full(dataset: str, title: str, budget: str, tasks: dict[str, int]) -> list[Protocol]:
    """All classes; `tasks` are the ends of names and the numbers of tasks that they stand for."""
    is_small = dataset == "cifar100"
    return [
        Protocol(
            dataset,
            title,
            "cifar100" if is_small else "imagenet",
            DataConfig(dataset=dataset),
            StreamConfig(num_tasks=num_tasks),
            AugmentConfig(train="crop-flip" if is_small else "resized-crop-flip"),
            budget,
            end=end,
        )
        for end, num_tasks in tasks.items()
    ]


_DIGITS = Protocol(
    "digits",
    "Digits",
    "digits",
    DataConfig(dataset="digits"),
    StreamConfig(num_tasks=5),
    AugmentConfig(train="crop", padding=2),
    "20images/class",
    "seconds to minutes on two cores",
)
# The user's own images, as small as those of the mini protocol, so that two cores suffice:
# data.image_size, stream.num_tasks and memory.budget are there to be changed. How many tasks there
# are follows from the number of classes (`data.datasets`).
_FOLDER = Protocol(
    "folder",
    "Your own folder of images",
    "folder",
    DataConfig(dataset="folder", path="images", image_size=32),
    StreamConfig(),
    AugmentConfig(train="crop-flip", padding=4),
    "60KiB/class",
    "given by --data-root",
)
_SPLITS = {"": 1, "-10": 10, "-20": 20, "-50": 50}
_ALL = (
    _DIGITS,
    _FOLDER,
    _mini("cifar100", "CIFAR-100"),
    _mini("tiny-imagenet", "Tiny-ImageNet"),
    *(_lite(end, num_tasks) for end, num_tasks in _SPLITS.items()),
    *_full("cifar100", "CIFAR-100", "2000images", _SPLITS),
    *_full("imagenet-subset", "ImageNet-Subset", "2000images", _SPLITS),
    *_full("imagenet-full", "ImageNet-Full", "20000images", {"": 10, "-10": 10}),
)
PROTOCOLS = {protocol.name: protocol for protocol in _ALL}
SMALL = ("digits", "folder", "cifar100-mini", "tiny-imagenet-mini")
CIFAR100 = ("cifar100-10", "cifar100-20", "cifar100-50")
LITE = ("cifar100-lite-10", "cifar100-lite-20", "cifar100-lite-50")
IMAGENET_SUBSET = ("imagenet-subset-10", "imagenet-subset-20", "imagenet-subset-50")
USUAL = (*SMALL, *LITE, *CIFAR100, *IMAGENET_SUBSET)


def mini_schedule(
    optimizer: OptimizerConfig, sampling: Literal["union", "balanced"] = "union"
) -> Schedule:
    """30 epochs' worth of steps over the new data, in batches of 64."""
    return Schedule(
        epochs=30, batch_size=64, steps_from="new", sampling=sampling, optimizer=optimizer
    )


# Chosen: the published rate (PyCIL: 0.1) under a cosine, which suits short schedules.
MINI_OPTIMIZER = OptimizerConfig(name="sgd", lr=0.1, weight_decay=5e-4, schedule="cosine")
MINI_SGD = mini_schedule(MINI_OPTIMIZER)
DIGITS_SGD = Schedule(
    epochs=15, batch_size=32, optimizer=MINI_OPTIMIZER.model_copy(update={"lr": 0.05})
)
