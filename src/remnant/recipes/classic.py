"""Recipes of the classic baselines lwf, ewc, icarl and wa.

[icarl] Rebuffi et al., CVPR 2017. [wa] Zhao et al., CVPR 2020.
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

Classic = Literal["lwf", "ewc", "icarl", "wa"]

# Chosen: [icarl] has lr 2.0 for a mean over 100 outputs, and the mini streams have 10; its weight
# decay did better on a holdout than that of the others. See docs/methods/icarl.md.
ICARL_MINI_OPTIMIZER = MINI_OPTIMIZER.model_copy(update={"lr": 0.2, "weight_decay": 2e-5})

# What short schedules need beside the defaults. Chosen: wa clips as [wa] does, since otherwise the
# rows of new classes are still shorter than old ones when training ends: see docs/methods/wa.md.
_SHORT: dict[Classic, dict[str, Any]] = {
    "lwf": {},
    "ewc": {},
    "icarl": {},
    "wa": {"has_positive_rows": True},
}


def digits(method: Classic) -> RunConfig:
    """On the embedded digits with a ResNet-8: seconds on two cores."""
    optimizer = OptimizerConfig(name="sgd", lr=0.05, weight_decay=5e-4, schedule="cosine")
    schedule = Schedule(epochs=15, batch_size=32, optimizer=optimizer)
    backbone = BackboneConfig(name="resnet8", has_last_relu=method != "icarl")
    mirror = {"mirror_exemplars": False} if method == "icarl" else {}  # a mirrored 3 is no 3
    config = _configure(method, backbone, schedule, None, _SHORT[method] | mirror)
    return protocols.digits(f"digits-{method}", config)


def mini(dataset: str, method: Classic) -> RunConfig:
    """The mini protocol with a ResNet-32: about twenty minutes on two cores."""
    optimizer = ICARL_MINI_OPTIMIZER if method == "icarl" else MINI_OPTIMIZER
    backbone = BackboneConfig(name="resnet32", has_last_relu=method != "icarl")
    schedule = protocols.mini_schedule(optimizer)
    config = _configure(method, backbone, schedule, None, _SHORT[method])
    return protocols.mini(f"{dataset}-mini-{method}", dataset, config)


def cifar100(method: Classic, num_tasks: int) -> RunConfig:
    """As published on CIFAR-100: ResNet-32, and 2,000 exemplars in all where any are kept.

    icarl as in its release: sigmoids, lr 2.0, 70 epochs, order `icarl`; lwf, ewc and wa as in
    PyCIL, order `seed-1993`. With a share per class: --set memory.budget=20images/class.
    Published, Avg / Last / F in percent: icarl (ResNet-18, mean of three orders) 10 tasks 65.27 /
    50.74 / 31.23, 20 tasks 61.20 / 43.75 / 32.40, 50 tasks 56.08 / 36.62 / 36.59. For 10 tasks: lwf
    Avg about 44, ewc Avg about 30 and Last about 12 (both recalled, unverified), wa Last about 52
    and icarl with a softmax Last about 49.5 (read off PyCIL's plot).
    Measured here: not yet; it needs a GPU for some hours.
    """
    backbone = BackboneConfig(name="resnet32", has_last_relu=method != "icarl")
    return protocols.compose(
        f"cifar100-{method}-{num_tasks}",
        DataConfig(dataset="cifar100"),
        StreamConfig(order="icarl" if method == "icarl" else "seed-1993", num_tasks=num_tasks),
        _configure(method, backbone, *_published(method, "cifar100")),
        MemoryConfig(budget="2000images"),
        AugmentConfig(train="crop-flip"),
    )


def imagenet(
    dataset: Literal["imagenet-subset", "imagenet-full"], method: Classic, num_tasks: int
) -> RunConfig:
    """At 224 px with a ResNet-18, and 20 exemplars per class in all where any are kept.

    icarl as in its release: 60 epochs, lr 2.0, batch 128; the others have PyCIL's schedule for
    CIFAR-100 with batch 256. Published, Avg / Last in percent: icarl on ImageNet-Subset, 10 tasks,
    top-5 83.60 / 63.80; on ImageNet-Full, 10 tasks, top-1 38.40 / 22.70 and top-5 63.70 / 44.00.
    For lwf, ewc and wa no number is known. Measured here: not yet; it needs GPUs.
    """
    exemplars = 2_000 if dataset == "imagenet-subset" else 20_000
    return protocols.compose(
        f"{dataset}-{method}" + ("" if dataset == "imagenet-full" else f"-{num_tasks}"),
        DataConfig(dataset=dataset),
        StreamConfig(num_tasks=num_tasks),
        _configure(
            method, BackboneConfig(name="resnet18", stem="large"), *_published(method, dataset)
        ),
        MemoryConfig(budget=f"{exemplars}images"),
        AugmentConfig(train="resized-crop-flip"),
    )


def _published(method: Classic, dataset: str) -> tuple[Schedule, Schedule | None, dict[str, Any]]:
    """The schedules of the first task and of those after it, and the settings beside them."""
    is_small = dataset == "cifar100"
    if method == "icarl":
        epochs, milestones = (70, (49, 63)) if is_small else (60, (20, 30, 40, 50))
        # The release adds 1e-5 times the sum of squares, and half of that on ImageNet.
        weight_decay = 2e-5 if is_small else 1e-5
        first = _steps(epochs, milestones, weight_decay, 128, lr=2.0, gamma=0.2)
        return first, None, {"average_over": "stream"}
    size = 128 if is_small else 256
    first = _steps(200, (60, 120, 160 if method == "lwf" else 170), 5e-4, size)
    epochs, milestones = {
        "lwf": (250, (60, 120, 180, 220)),
        "ewc": (180, (70, 120, 150)),
        "wa": (170, (60, 100, 140)),
    }[method]
    return first, _steps(epochs, milestones, 2e-4, size), {}


def _steps(
    epochs: int,
    milestones: tuple[int, ...],
    weight_decay: float,
    batch_size: int,
    lr: float = 0.1,
    gamma: float = 0.1,
) -> Schedule:
    optimizer = OptimizerConfig(
        name="sgd",
        lr=lr,
        weight_decay=weight_decay,
        schedule="steps",
        milestones=milestones,
        gamma=gamma,
    )
    return Schedule(epochs=epochs, batch_size=batch_size, optimizer=optimizer)


def _configure(
    method: Classic,
    backbone: BackboneConfig,
    first: Schedule,
    later: Schedule | None = None,
    options: dict[str, Any] | None = None,
) -> MethodConfig:
    settings = {"name": method, "backbone": backbone, "first": first, "later": later}
    return METHODS[method].Config.model_validate(settings | (options or {}))
