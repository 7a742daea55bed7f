"""Recipes of the baselines with one extractor per task.

[der] Yan et al., CVPR 2021. [simple] Li et al., 2021.

Departs from [der]: images are cropped and flipped; released, brightness varies too on CIFAR-100.
Departs from [der]: a plain ResNet-18 on ImageNet; released, a pre-activated one.
"""

from __future__ import annotations

from typing import Any, Literal

from remnant.config import RunConfig
from remnant.data import DataConfig
from remnant.data.stream import StreamConfig
from remnant.memory import MemoryConfig
from remnant.methods import METHODS, MethodConfig
from remnant.methods.backbones import BackboneConfig
from remnant.phases import OptimizerConfig, Schedule
from remnant.recipes import protocols
from remnant.recipes.simple import MINI_OPTIMIZER
from remnant.views.augment import AugmentConfig

Growing = Literal["expandable", "expandable-pruned", "simple-expandable"]

# Chosen: the share of a schedule of 30 epochs that 10 are of the published 170.
_SHORT_WARMUP = 2
# Chosen: hard gates need steps to settle in, of which short epochs have few.
_SHORT_SCALE = 50.0


def digits(method: Growing) -> RunConfig:
    """On the embedded digits with a ResNet-8 per task: about a minute on two cores."""
    optimizer = OptimizerConfig(
        name="sgd", lr=0.05, weight_decay=5e-4, schedule="cosine", warmup_epochs=_SHORT_WARMUP
    )
    schedule = Schedule(epochs=15, batch_size=32, optimizer=optimizer)
    config = _configure(method, BackboneConfig(name="resnet8"), schedule, _short(method, 32))
    return protocols.digits(f"digits-{method}", config)


def mini(dataset: str, method: Growing) -> RunConfig:
    """The mini protocol with a ResNet-32 per task: about half an hour on two cores."""
    # Chosen: what comes after training keeps its published epochs where it passes over exemplars
    # alone, which are a tenth of the published ones; compression takes a fifth of the training.
    optimizer = MINI_OPTIMIZER.model_copy(update={"warmup_epochs": _SHORT_WARMUP})
    schedule = protocols.mini_schedule(optimizer)
    config = _configure(method, BackboneConfig(name="resnet32"), schedule, _short(method, 64))
    return protocols.mini(f"{dataset}-mini-{method}", dataset, config)


def cifar100(method: Growing, num_tasks: int) -> RunConfig:
    """As published on CIFAR-100: a ResNet-18 per task, 170 epochs, 2,000 exemplars in all.

    SGD 0.1 with a warm-up of 10 epochs, after which the heads start anew, x0.1 at 110 and 130,
    weight decay 5e-4, batch 128; then 30 epochs for the classifier on equal classes.
    Published, Avg / Last / F in percent, mean of three orders, for 10, 20 and 50 tasks: expandable
    75.36 / 65.22 / 15.02, 74.09 / 62.48 / 23.55, 72.41 / 59.08 / 26.73;
    expandable-pruned 74.64 / 64.35 / 15.78, 73.98 / 62.55 / 23.47, 72.05 / 59.76 / 26.59, with
    4.96, 7.21 and 10.15 M parameters on average over the tasks (recalled, unverified);
    simple-expandable: none. Measured here: not yet; it needs a GPU for days.
    """
    return protocols.compose(
        f"cifar100-{method}-{num_tasks}",
        DataConfig(dataset="cifar100"),
        StreamConfig(num_tasks=num_tasks),
        _configure(method, BackboneConfig(name="resnet18"), _schedule(170, 10, (110, 130), 128)),
        MemoryConfig(budget="2000images"),
        AugmentConfig(train="crop-flip"),
    )


def imagenet(
    dataset: Literal["imagenet-subset", "imagenet-full"], method: Growing, num_tasks: int
) -> RunConfig:
    """As published at 224 px: a ResNet-18 per task, 220 epochs, 20 exemplars per class in all.

    Warm-up of 20 epochs, x0.1 at 80, 140, 180 and 200, batch 256, temperature 1.
    Published, Avg / Last / F in percent, for 10, 20 and 50 tasks of ImageNet-Subset: expandable
    77.18 / 66.70 / 14.86, 72.70 / 61.74 / 20.76, 70.44 / 58.87 / 24.20; expandable-pruned 76.12 /
    66.06 / 15.09, 72.56 / 61.51 / 20.46, 69.77 / 58.19 / 25.35. ImageNet-Full in 10 tasks, top-1
    and top-5 Avg / Last: expandable 68.84 / 60.16, 88.17 / 82.86; expandable-pruned 66.73 / 58.62,
    87.08 / 81.89; simple-expandable 66.63 / 59.24, 85.62 / 80.76 with 28.0 M parameters. Measured
    here: not yet; it needs GPUs for weeks.
    """
    is_full = dataset == "imagenet-full"
    options = _batches_of(256, method) | {"tuning_temperature": 1.0}
    schedule = _schedule(220, 20, (80, 140, 180, 200), 256)
    backbone = BackboneConfig(name="resnet18", stem="large")
    return protocols.compose(
        f"{dataset}-{method}" + ("" if is_full else f"-{num_tasks}"),
        DataConfig(dataset=dataset),
        StreamConfig(num_tasks=num_tasks),
        _configure(method, backbone, schedule, options),
        MemoryConfig(budget=f"{20_000 if is_full else 2_000}images"),
        AugmentConfig(train="resized-crop-flip"),
    )


def _schedule(
    epochs: int, warmup_epochs: int, milestones: tuple[float, ...], batch_size: int
) -> Schedule:
    optimizer = OptimizerConfig(
        name="sgd",
        lr=0.1,
        weight_decay=5e-4,
        schedule="steps",
        milestones=milestones,
        warmup_epochs=warmup_epochs,
    )
    return Schedule(epochs=epochs, batch_size=batch_size, optimizer=optimizer)


def _batches_of(size: int, method: Growing) -> dict[str, Any]:
    """The phases that follow training, with batches of another size than on CIFAR-100."""
    fields = METHODS[method].Config.model_fields
    names = [name for name in ("balanced_tuning", "compression") if name in fields]
    return {name: fields[name].default.model_copy(update={"batch_size": size}) for name in names}


def _short(method: Growing, batch_size: int) -> dict[str, Any]:
    """What short runs change."""
    options = _batches_of(batch_size, method)
    if method == "expandable-pruned":
        options["max_scale"] = _SHORT_SCALE
    if method == "simple-expandable":
        options["compression"] = options["compression"].model_copy(update={"epochs": 6})
    return options


def _configure(
    method: Growing,
    backbone: BackboneConfig,
    first: Schedule,
    options: dict[str, Any] | None = None,
) -> MethodConfig:
    settings = {"name": method, "backbone": backbone, "first": first}
    return METHODS[method].Config.model_validate(settings | (options or {}))
