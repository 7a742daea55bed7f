"""Presets of CIM over weight alignment. [cim] Luo et al., CVPR 2023. [bimae] Zhai et al., 2023.

Departs from [cim]: images are cropped and flipped; released, brightness varies and an AutoAugment
policy comes on top.
"""

from typing import Any

from remnant.memory.codecs.boxed import BoxedConfig
from remnant.methods.backbones import BackboneConfig
from remnant.methods.cim import CIMConfig
from remnant.phases import Schedule
from remnant.recipes.presets import RESNET8, RESNET18_224, RESNET32, Preset, Published, Setup, sgd
from remnant.recipes.protocols import (
    CIFAR100,
    DIGITS_SGD,
    IMAGENET_SUBSET,
    LITE,
    MINI_SGD,
    SMALL,
)

_BOXED = BoxedConfig()


def _small(backbone: BackboneConfig, first: Schedule, refresh: int) -> Setup:
    """Chosen: boxes are found anew twice, and the base clips rows as in short runs of `wa`."""
    values: dict[str, Any] = {
        "backbone": backbone,
        "first": first,
        "base": {"name": "wa", "has_positive_rows": True},
        "refresh_every_epochs": refresh,
    }
    return Setup(CIMConfig.parse(values), codec=_BOXED)


def _full(backbone: BackboneConfig, mask_every: int) -> CIMConfig:
    """The mask generator moves about 5 times in an epoch of ten classes."""
    first, later = (sgd(epochs, 256, schedule="cosine", weight_decay=5e-4) for epochs in (200, 170))
    return CIMConfig(backbone=backbone, first=first, later=later, mask_every=mask_every)


PRESET = Preset(
    name="cim",
    protocols=(*SMALL, *LITE, *CIFAR100, *IMAGENET_SUBSET),
    setups={
        "digits": _small(RESNET8, DIGITS_SGD, refresh=5),
        "mini": _small(RESNET32, MINI_SGD, refresh=10),
        "lite": _small(RESNET32, MINI_SGD.model_copy(update={"epochs": 6}), refresh=2),
        "cifar100": Setup(
            _full(BackboneConfig(name="resnet18"), mask_every=5),
            "its release for ImageNet-Subset",
            order="seed-1993",
            codec=_BOXED,
        ),
        # On 100 other classes than [cim].
        "imagenet": Setup(_full(RESNET18_224, mask_every=12), "its release", codec=_BOXED),
    },
    published=(Published("cifar100-10", 75.30, 63.05, None, "[bimae] table 9", "base not stated"),),
)
