"""Presets of MECIL. [mecil] Zhao et al., TNNLS 2021. [bimae] Zhai et al., ICCV 2023.

Departs from [mecil]: exemplars are images of half the side, 80 of them in the bytes of 20; the
released code for CIFAR-100 keeps 60.
"""

from remnant.memory.codecs.downscaled import DownscaledConfig
from remnant.methods.backbones import BackboneConfig
from remnant.methods.mecil import MECILConfig
from remnant.recipes.presets import Preset, Published, Setup, sgd
from remnant.recipes.protocols import (
    CIFAR100,
    DIGITS_SGD,
    LITE,
    MINI_OPTIMIZER,
    SMALL,
    mini_schedule,
)

_RESNET8 = BackboneConfig(name="resnet8", has_last_relu=False)
_RESNET32 = BackboneConfig(name="resnet32", has_last_relu=False)
_HALVED = DownscaledConfig(factor=2)
# Chosen: rates as for iCaRL, which has the same loss; see docs/methods/icarl.md.
_MINI = mini_schedule(MINI_OPTIMIZER.model_copy(update={"lr": 0.2, "weight_decay": 2e-5}))
_LITE = mini_schedule(MINI_OPTIMIZER.model_copy(update={"lr": 2.0, "weight_decay": 2e-5}))
# The release adds 1e-5 times the sum of squares.
_CIFAR100 = sgd(70, 128, milestones=(49, 63), weight_decay=2e-5, lr=2.0, gamma=0.2)

PRESET = Preset(
    name="mecil",
    protocols=(*SMALL, *LITE, *CIFAR100),
    setups={
        "digits": Setup(MECILConfig(backbone=_RESNET8, first=DIGITS_SGD), codec=_HALVED),
        "mini": Setup(MECILConfig(backbone=_RESNET32, first=_MINI), codec=_HALVED),
        "lite": Setup(
            MECILConfig(
                backbone=_RESNET32,
                first=_LITE.model_copy(update={"epochs": 6}),
                average_over="stream",
            ),
            codec=_HALVED,
        ),
        "cifar100": Setup(
            MECILConfig(backbone=_RESNET32, first=_CIFAR100, average_over="stream"),
            "its release",
            order="icarl",
            codec=_HALVED,
        ),
    },
    published=(
        Published("cifar100-10", 67.04, 55.40, None, "[bimae] table 9", "settings not stated"),
    ),
)
