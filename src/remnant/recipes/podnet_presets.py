"""Presets of PODNet. [podnet] Douillard et al., ECCV 2020. [bimae] Zhai et al., ICCV 2023.

Departs from [podnet]: images are cropped and flipped; published, brightness varies too.
Departs from [podnet]: small recipes do not clamp gradients in training, only in tuning.
"""

from typing import Any

from remnant.methods.backbones import BackboneConfig
from remnant.methods.podnet import PODNetConfig
from remnant.phases import Schedule
from remnant.recipes.presets import Preset, Published, Setup, sgd
from remnant.recipes.protocols import DIGITS_SGD, MINI_SGD, USUAL

_RESNET32 = BackboneConfig(name="resnet32", has_last_relu=False)
_RESNET8 = _RESNET32.model_copy(update={"name": "resnet8"})
_RESNET18 = _RESNET32.model_copy(update={"name": "resnet18", "stem": "pooled"})
_DER_RUN = "ResNet-18, 2,000 images in all"


def _podnet(
    backbone: BackboneConfig, first: Schedule, tuning_lr: float = 0.05, **options: Any
) -> PODNetConfig:
    """Chosen: short runs keep the epochs of tuning, which pass over exemplars alone."""
    tuning = sgd(20, first.batch_size, lr=tuning_lr, weight_decay=5e-4, clip_value=5)
    return PODNetConfig(backbone=backbone, first=first, balanced_tuning=tuning, **options)


_CIFAR100 = sgd(160, 128, schedule="cosine", weight_decay=5e-4, clip_value=5)
_IMAGENET = sgd(90, 64, lr=0.05, schedule="cosine", weight_decay=5e-4, clip_value=5)

PRESET = Preset(
    name="podnet",
    protocols=USUAL,
    setups={
        # A mirrored 3 is no 3.
        "digits": Setup(_podnet(_RESNET8, DIGITS_SGD, mirror_exemplars=False)),
        "mini": Setup(_podnet(_RESNET32, MINI_SGD)),
        "cifar100": Setup(
            _podnet(_RESNET32, _CIFAR100),
            "its release",
            order="icarl",
            budget="20images/class",
        ),
        "imagenet": Setup(
            _podnet(_RESNET18, _IMAGENET, tuning_lr=0.01, spatial_weight=8.0, flat_weight=10.0),
            "its release",
            budget="20images/class",
        ),
    },
    published=(
        Published("cifar100-10", 58.03, 41.05, 41.47, "[bimae] table 1", _DER_RUN),
        Published("cifar100-20", 53.97, 35.02, 36.70, "[bimae] table 1", _DER_RUN),
        Published("cifar100-50", 51.19, 32.99, 40.42, "[bimae] table 1", _DER_RUN),
        Published("imagenet-subset-10", 63.44, 51.75, 35.63, "[bimae] table 2"),
        Published("imagenet-subset-20", 55.11, 45.37, 41.70, "[bimae] table 2"),
        Published("imagenet-subset-50", 51.72, 42.94, 44.65, "[bimae] table 2"),
    ),
)
