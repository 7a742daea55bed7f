"""Presets of BiC. [bic] Wu et al., CVPR 2019. [bimae] Zhai et al., ICCV 2023.

Departs from [bic]: at 224 px a plain ResNet-18 in place of a pre-activated one.
"""

from remnant.methods.bic import BiCConfig
from remnant.recipes.presets import RESNET8, RESNET18_224, RESNET32, Preset, Published, Setup, sgd
from remnant.recipes.protocols import DIGITS_SGD, MINI_SGD, USUAL

_CIFAR100 = sgd(250, 128, milestones=(100, 150, 200), weight_decay=2e-4)
_IMAGENET = sgd(
    100, 256, milestones=(30, 60, 80, 90), weight_decay=1e-4, decay_norms_and_biases=False
)

PRESET = Preset(
    name="bic",
    protocols=USUAL,
    setups={
        "digits": Setup(BiCConfig(backbone=RESNET8, first=DIGITS_SGD)),
        # Chosen: the second stage keeps its epochs, which pass over exemplars alone.
        "mini": Setup(BiCConfig(backbone=RESNET32, first=MINI_SGD)),
        "cifar100": Setup(BiCConfig(backbone=RESNET32, first=_CIFAR100), "FACIL", order="icarl"),
        "imagenet": Setup(BiCConfig(backbone=RESNET18_224, first=_IMAGENET), "its release"),
    },
    published=(
        Published("cifar100-10", 68.80, 53.54, 28.44, "[bimae] table 1", "ResNet-18"),
        Published("cifar100-20", 66.48, 47.02, 29.30, "[bimae] table 1", "ResNet-18"),
        Published("cifar100-50", 62.09, 41.04, 34.27, "[bimae] table 1", "ResNet-18"),
        Published("imagenet-subset-10", 64.96, 55.07, 31.32, "[bimae] table 2"),
        Published("imagenet-subset-20", 59.40, 49.35, 34.70, "[bimae] table 2"),
        Published("imagenet-subset-50", 53.75, 44.56, 40.23, "[bimae] table 2"),
    ),
)
