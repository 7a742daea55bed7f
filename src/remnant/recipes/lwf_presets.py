"""Presets of learning without forgetting. [pycil] Zhou et al., PyCIL, 2021."""

from remnant.methods.lwf import LwFConfig
from remnant.recipes.presets import RESNET8, RESNET32, Preset, Published, Setup, pycil
from remnant.recipes.protocols import DIGITS_SGD, MINI_SGD, USUAL

PRESET = Preset(
    name="lwf",
    protocols=USUAL,
    setups={
        "digits": Setup(LwFConfig(backbone=RESNET8, first=DIGITS_SGD)),
        "mini": Setup(LwFConfig(backbone=RESNET32, first=MINI_SGD)),
        **pycil(LwFConfig, first=(60, 120, 160), epochs=250, later=(60, 120, 180, 220)),
    },
    published=(
        Published("cifar100-10", 44, None, None, "PyCIL family", "recalled", is_rough=True),
        Published("cifar100-10", 43.0, None, None, "a public run", "ResNet-18", is_rough=True),
    ),
)
