"""Recipes of the baselines that distil more than scores or correct them: ucir, bic and podnet.

[ucir] Hou et al., CVPR 2019. [bic] Wu et al., CVPR 2019. [podnet] Douillard et al., ECCV 2020.
"""

from __future__ import annotations

from typing import Any, Literal

from remnant.config import RunConfig
from remnant.data import DataConfig
from remnant.data.stream import StreamConfig
from remnant.memory import MemoryConfig
from remnant.methods import METHODS, MethodConfig
from remnant.methods.backbones import BackboneConfig
from remnant.methods.podnet import TUNING
from remnant.phases import OptimizerConfig, Schedule
from remnant.recipes import protocols
from remnant.recipes.simple import MINI_OPTIMIZER
from remnant.views.augment import AugmentConfig

Distilled = Literal["ucir", "bic", "podnet"]


def digits(method: Distilled) -> RunConfig:
    """On the embedded digits with a ResNet-8: about a minute on two cores."""
    optimizer = OptimizerConfig(name="sgd", lr=0.05, weight_decay=5e-4, schedule="cosine")
    schedule = Schedule(epochs=15, batch_size=32, optimizer=optimizer)
    options = {} if method == "bic" else {"mirror_exemplars": False}  # a mirrored 3 is no 3
    config = _configure(method, "resnet8", schedule, _tuning(method, 32) | options)
    return protocols.digits(f"digits-{method}", config)


def mini(dataset: str, method: Distilled) -> RunConfig:
    """The mini protocol with a ResNet-32: about twenty minutes on two cores."""
    # Chosen: second stages keep their epochs, which pass over the memory alone and so shrink with
    # it; the memory of ten classes is a tenth of the published one.
    schedule = protocols.mini_schedule(MINI_OPTIMIZER)
    config = _configure(method, "resnet32", schedule, _tuning(method, 64))
    return protocols.mini(f"{dataset}-mini-{method}", dataset, config)


def cifar100(method: Distilled, num_tasks: int) -> RunConfig:
    """As published on CIFAR-100: ResNet-32; 20 exemplars per class, for bic 2,000 in all.

    ucir: 160 epochs, x0.1 at 80, 120, order `seed-1993`. bic: 250 epochs, x0.1 at 100, 150, 200
    (as FACIL has them). podnet: 160 epochs under a cosine, then 20 for the proxies; its brightness
    jitter is left out. Published, Avg / Last / F in percent, with a ResNet-18 and 2,000 exemplars
    in all for 10, 20 and 50 tasks: ucir 58.66 / 43.39 / 35.67, 58.17 / 40.63 / 37.75, 56.86 /
    37.09 / 38.13; bic 68.80 / 53.54 / 28.44, 66.48 / 47.02 / 29.30, 62.09 / 41.04 / 34.27; podnet
    58.03 / 41.05 / 41.47, 53.97 / 35.02 / 36.70, 51.19 / 32.99 / 40.42.
    Measured here: not yet; it needs a GPU for some hours.
    """
    schedule = {
        "ucir": _schedule(160, 128, weight_decay=5e-4, milestones=(80, 120)),
        "bic": _schedule(250, 128, weight_decay=2e-4, milestones=(100, 150, 200)),
        "podnet": _schedule(160, 128, weight_decay=5e-4, clip_value=5),
    }[method]
    return protocols.compose(
        f"cifar100-{method}-{num_tasks}",
        DataConfig(dataset="cifar100"),
        StreamConfig(order="seed-1993" if method == "ucir" else "icarl", num_tasks=num_tasks),
        _configure(method, "resnet32", schedule),
        MemoryConfig(budget=_published_budget(method)),
        AugmentConfig(train="crop-flip"),
    )


def imagenet_subset(method: Distilled, num_tasks: int) -> RunConfig:
    """As published for 100 classes at 224 px: ResNet-18; 20 exemplars per class, bic 2,000 in all.

    ucir: 90 epochs, x0.1 at 30, 60, on 100 other classes. bic: 100 epochs, x0.1 at 30, 60, 80, 90,
    with a plain ResNet-18 in place of its pre-activated one. podnet: 90 epochs under a cosine, then
    20 for the proxies. Published, Avg / Last / F in percent, for 10, 20 and 50 tasks: bic 64.96 /
    55.07 / 31.32, 59.40 / 49.35 / 34.70, 53.75 / 44.56 / 40.23; podnet 63.44 / 51.75 / 35.63,
    55.11 / 45.37 / 41.70, 51.72 / 42.94 / 44.65. Measured here: not yet; it needs GPUs.
    """
    schedule = {
        "ucir": _schedule(90, 128, weight_decay=1e-4, milestones=(30, 60)),
        "bic": _schedule(
            100,
            256,
            weight_decay=1e-4,
            milestones=(30, 60, 80, 90),
            decay_norms_and_biases=False,
        ),
        "podnet": _schedule(90, 64, lr=0.05, weight_decay=5e-4, clip_value=5),
    }[method]
    options: dict[str, Any] = {
        "ucir": {"less_forget_weight": 10.0},
        "bic": {},
        "podnet": {"spatial_weight": 8.0, "flat_weight": 10.0, **_tuning("podnet", 64, lr=0.01)},
    }[method]
    return protocols.compose(
        f"imagenet-subset-{method}-{num_tasks}",
        DataConfig(dataset="imagenet-subset"),
        StreamConfig(num_tasks=num_tasks),
        _configure(method, "resnet18", schedule, options),
        MemoryConfig(budget=_published_budget(method)),
        AugmentConfig(train="resized-crop-flip"),
    )


def _published_budget(method: Distilled) -> str:
    return "2000images" if method == "bic" else "20images/class"


def _schedule(
    epochs: int,
    batch_size: int,
    milestones: tuple[int, ...] | None = None,  # None: a cosine
    lr: float = 0.1,
    **optimizer: Any,
) -> Schedule:
    steps = {"schedule": "steps", "milestones": milestones} if milestones else {}
    settings = {"name": "sgd", "lr": lr, "schedule": "cosine", **steps, **optimizer}
    return Schedule.model_validate(
        {"epochs": epochs, "batch_size": batch_size, "optimizer": settings}
    )


def _tuning(method: Distilled, batch_size: int, lr: float = 0.05) -> dict[str, Any]:
    """The second stage of podnet, at another size than on CIFAR-100."""
    if method != "podnet":
        return {}
    optimizer = TUNING.optimizer.model_copy(update={"lr": lr})
    update = {"batch_size": batch_size, "optimizer": optimizer}
    return {"balanced_tuning": TUNING.model_copy(update=update)}


def _configure(
    method: Distilled, network: str, first: Schedule, options: dict[str, Any] | None = None
) -> MethodConfig:
    """Networks as published: [ucir] projects, and cosine classifiers keep the sign of features."""
    backbone = BackboneConfig.model_validate(
        {
            "name": network,
            "shortcut": "project" if method == "ucir" else "pad",
            "stem": "small" if network != "resnet18" else _large_stem(method),
            "has_last_relu": method == "bic",
        }
    )
    settings = {"name": method, "backbone": backbone, "first": first}
    return METHODS[method].Config.model_validate(settings | (options or {}))


def _large_stem(method: Distilled) -> str:
    return "pooled" if method == "podnet" else "large"
