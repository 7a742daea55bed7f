"""Presets of mnemonics. [mnemonics] Liu et al., CVPR 2020. [bimae] Zhai et al., ICCV 2023."""

from remnant.methods.backbones import BackboneConfig
from remnant.methods.mnemonics import PIXELS, MnemonicsConfig
from remnant.recipes.presets import Preset, Published, Setup, sgd
from remnant.recipes.protocols import CIFAR100, DIGITS_SGD, LITE, MINI_SGD, SMALL

_RESNET32 = BackboneConfig(name="resnet32", shortcut="project", has_last_relu=False)
_RESNET8 = _RESNET32.model_copy(update={"name": "resnet8"})
_CIFAR100 = sgd(160, 128, milestones=(80, 120), weight_decay=5e-4)
# Chosen: small streams have few images, so that a pass over them in small batches has some steps.
_SMALL = PIXELS.model_copy(update={"batch_size": 32})

PRESET = Preset(
    name="mnemonics",
    protocols=(*SMALL, *LITE, *CIFAR100),
    setups={
        # A mirrored 3 is no 3.
        "digits": Setup(
            MnemonicsConfig(
                backbone=_RESNET8, first=DIGITS_SGD, pixels=_SMALL, mirror_exemplars=False
            )
        ),
        "mini": Setup(MnemonicsConfig(backbone=_RESNET32, first=MINI_SGD, pixels=_SMALL)),
        "cifar100": Setup(
            MnemonicsConfig(backbone=_RESNET32, first=_CIFAR100),
            "its release",
            order="seed-1993",
            budget="20images/class",
        ),
    },
    published=(
        Published("cifar100-10", 63.25, 53.12, None, "[bimae] table 9", "settings not stated"),
    ),
)
