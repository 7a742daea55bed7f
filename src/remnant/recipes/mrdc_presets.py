"""Presets of MRDC over UCIR. [mrdc] Wang et al., ICLR 2022. [bimae] Zhai et al., ICCV 2023.

All but the codec is as for UCIR, on which [mrdc] was released.
"""

from remnant.memory.codecs.jpeg import JpegConfig
from remnant.methods.backbones import BackboneConfig
from remnant.methods.mrdc import MRDCConfig
from remnant.recipes.presets import Preset, Published, Setup, sgd
from remnant.recipes.protocols import DIGITS_SGD, MINI_SGD, USUAL

_RESNET32 = BackboneConfig(name="resnet32", shortcut="project", has_last_relu=False)
_RESNET8 = _RESNET32.model_copy(update={"name": "resnet8"})
_RESNET18 = _RESNET32.model_copy(update={"name": "resnet18", "stem": "large"})
_CIFAR100 = sgd(160, 128, milestones=(80, 120), weight_decay=5e-4)
_IMAGENET = sgd(90, 128, milestones=(30, 60), weight_decay=1e-4)
_JPEG = JpegConfig()  # its quality is chosen
_LUCIR = MRDCConfig.parse(
    {"base": {"name": "ucir", "less_forget_weight": 10.0}, "first": _IMAGENET}
).base

PRESET = Preset(
    name="mrdc",
    protocols=USUAL,
    setups={
        "digits": Setup(MRDCConfig(backbone=_RESNET8, first=DIGITS_SGD), codec=_JPEG),
        "mini": Setup(MRDCConfig(backbone=_RESNET32, first=MINI_SGD), codec=_JPEG),
        "cifar100": Setup(
            MRDCConfig(backbone=_RESNET32, first=_CIFAR100),
            "the release of UCIR",
            order="seed-1993",
            budget="20images/class",
            codec=_JPEG,
        ),
        # On 100 other classes than [mrdc].
        "imagenet": Setup(
            MRDCConfig(backbone=_RESNET18, first=_IMAGENET, base=_LUCIR),
            "its release",
            budget="20images/class",
            codec=_JPEG,
        ),
    },
    published=(Published("cifar100-10", 72.34, 61.32, None, "[bimae] table 9", "base not stated"),),
)
