"""What recipes share: what is learned in which order, with how much memory and time."""

from __future__ import annotations

from remnant.config import RunConfig
from remnant.data import DataConfig
from remnant.data.stream import StreamConfig
from remnant.memory import MemoryConfig
from remnant.methods import METHODS, MethodConfig
from remnant.phases import OptimizerConfig, Schedule
from remnant.views.augment import AugmentConfig

MINI_BUDGET = "60KiB/class"


def compose(
    recipe: str,
    data: DataConfig,
    stream: StreamConfig,
    method: MethodConfig,
    memory: MemoryConfig,
    augment: AugmentConfig,
) -> RunConfig:
    """A config; a method that keeps nothing goes without the memory, joint training in one task."""
    if method.name == "joint":
        stream = stream.model_copy(update={"num_tasks": 1})
    return RunConfig(
        recipe=recipe,
        data=data,
        stream=stream,
        augment=augment,
        memory=memory if METHODS[method.name].uses_memory else None,
        method=method,
    )


def digits(recipe: str, method: MethodConfig, memory: MemoryConfig | None = None) -> RunConfig:
    """The embedded digits: 5 tasks of 2 classes, the bytes of 20 images per class."""
    return compose(
        recipe,
        DataConfig(dataset="digits"),
        StreamConfig(num_tasks=5),
        method,
        memory or MemoryConfig(budget="20images/class"),
        AugmentConfig(train="crop", padding=2),
    )


def mini(
    recipe: str, dataset: str, method: MethodConfig, memory: MemoryConfig | None = None
) -> RunConfig:
    """The mini protocol: the first 10 classes of the default order in 5 tasks of 2, at 32 px.

    All their training and test images, 60 KiB of memory per class counted strictly, and for every
    method and codec the same number of steps per task.
    """
    return compose(
        recipe,
        DataConfig(dataset=dataset, image_size=32),
        StreamConfig(num_classes=10, num_tasks=5),
        method,
        memory or MemoryConfig(budget=MINI_BUDGET),
        AugmentConfig(train="crop-flip", padding=4),
    )


def mini_schedule(optimizer: OptimizerConfig, sampling: str = "union") -> Schedule:
    """30 epochs' worth of steps over the new data, batches of 64."""
    return Schedule.model_validate(
        {
            "epochs": 30,
            "batch_size": 64,
            "steps_from": "new",
            "sampling": sampling,
            "optimizer": optimizer,
        }
    )
