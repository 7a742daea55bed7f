"""Presets of UCIR. [ucir] Hou et al., CVPR 2019. [bimae] Zhai et al., ICCV 2023."""

from remnant.methods.backbones import BackboneConfig
from remnant.methods.ucir import UCIRConfig
from remnant.recipes.presets import Preset, Published, Setup, sgd
from remnant.recipes.protocols import DIGITS_SGD, MINI_SGD, USUAL

_RESNET32 = BackboneConfig(name="resnet32", shortcut="project", has_last_relu=False)
_RESNET8 = _RESNET32.model_copy(update={"name": "resnet8"})
_RESNET18 = _RESNET32.model_copy(update={"name": "resnet18", "stem": "large"})
_CIFAR100 = sgd(160, 128, milestones=(80, 120), weight_decay=5e-4)
_IMAGENET = sgd(90, 128, milestones=(30, 60), weight_decay=1e-4)
_DER_RUN = "ResNet-18, 2,000 images in all"

PRESET = Preset(
    name="ucir",
    protocols=USUAL,
    setups={
        # A mirrored 3 is no 3.
        "digits": Setup(UCIRConfig(backbone=_RESNET8, first=DIGITS_SGD, mirror_exemplars=False)),
        "mini": Setup(UCIRConfig(backbone=_RESNET32, first=MINI_SGD)),
        "cifar100": Setup(
            UCIRConfig(backbone=_RESNET32, first=_CIFAR100),
            "its release",
            order="seed-1993",
            budget="20images/class",
        ),
        # On 100 other classes than [ucir].
        "imagenet": Setup(
            UCIRConfig(backbone=_RESNET18, first=_IMAGENET, less_forget_weight=10.0),
            "its release",
            budget="20images/class",
        ),
    },
    published=(
        Published("cifar100-10", 58.66, 43.39, 35.67, "[bimae] table 1", _DER_RUN),
        Published("cifar100-20", 58.17, 40.63, 37.75, "[bimae] table 1", _DER_RUN),
        Published("cifar100-50", 56.86, 37.09, 38.13, "[bimae] table 1", _DER_RUN),
    ),
)
