"""Presets of DER without pruning, and what all methods with one extractor per task share.

[der] Yan et al., CVPR 2021. [bimae] Zhai et al., ICCV 2023. [dytox] Douillard et al., CVPR 2022,
the table of its repository.

Departs from [der]: images are cropped and flipped; released, brightness varies too on CIFAR-100.
Departs from [der]: a plain ResNet-18 on ImageNet; released, a pre-activated one.
"""

from typing import Any

from remnant.methods.backbones import BackboneConfig
from remnant.methods.expandable import ExpandableConfig
from remnant.phases import Schedule
from remnant.recipes.presets import RESNET8, RESNET18_224, RESNET32, Preset, Published, Setup, sgd
from remnant.recipes.protocols import DIGITS_SGD, MINI_SGD, USUAL


def _warmed(schedule: Schedule) -> Schedule:
    """Chosen: 2 is the share of a schedule of 30 epochs that 10 are of the published 170."""
    optimizer = schedule.optimizer.model_copy(update={"warmup_epochs": 2.0})
    return schedule.model_copy(update={"optimizer": optimizer})


def _der(backbone: BackboneConfig, first: Schedule, temperature: float = 5.0) -> dict[str, Any]:
    """Chosen: short runs keep the epochs of tuning, which pass over exemplars alone."""
    tuning = sgd(30, first.batch_size, milestones=(15,), weight_decay=5e-4)
    return {
        "backbone": backbone,
        "first": first,
        "balanced_tuning": tuning,
        "tuning_temperature": temperature,
    }


# As released, rates fall 100 and 120 epochs after the warm-up, on ImageNet 60, 120, 160 and 180.
DIGITS = _der(RESNET8, _warmed(DIGITS_SGD))
MINI = _der(RESNET32, _warmed(MINI_SGD))
CIFAR100 = _der(
    BackboneConfig(name="resnet18"),
    sgd(170, 128, milestones=(110, 130), weight_decay=5e-4, warmup_epochs=10),
)
IMAGENET = _der(
    RESNET18_224,
    sgd(220, 256, milestones=(80, 140, 180, 200), weight_decay=5e-4, warmup_epochs=20),
    temperature=1.0,
)
_SIZE = "its size from [dytox]"

PRESET = Preset(
    name="expandable",
    protocols=(*USUAL, "imagenet-full"),
    setups={
        "digits": Setup(ExpandableConfig(**DIGITS)),
        "mini": Setup(ExpandableConfig(**MINI)),
        "cifar100": Setup(ExpandableConfig(**CIFAR100), "its release"),
        "imagenet": Setup(ExpandableConfig(**IMAGENET), "its release"),
    },
    published=(
        Published("cifar100-10", 75.36, 65.22, 15.02, "[bimae] tables 1, 7", "", 112.27),
        Published("cifar100-20", 74.09, 62.48, 23.55, "[bimae] table 1", _SIZE, 224.55),
        Published("cifar100-50", 72.41, 59.08, 26.73, "[bimae] table 1", _SIZE, 561.39),
        Published("imagenet-subset-10", 77.18, 66.70, 14.86, "[bimae] table 2"),
        Published("imagenet-subset-20", 72.70, 61.74, 20.76, "[bimae] table 2"),
        Published("imagenet-subset-50", 70.44, 58.87, 24.20, "[bimae] table 2"),
        Published("imagenet-full", 68.84, 60.16, None, "[bimae] table 3"),
        Published("imagenet-full", 88.17, 82.86, None, "[bimae] table 3", top=5),
    ),
)
