"""Presets of experience replay. [pycil] Zhou et al., PyCIL, 2021."""

from remnant.methods.er import ERConfig
from remnant.recipes.presets import RESNET8, RESNET32, Preset, Published, Setup, pycil
from remnant.recipes.protocols import DIGITS_SGD, MINI_SGD, USUAL

PRESET = Preset(
    name="er",
    protocols=(*USUAL, "imagenet-full-10"),
    setups={
        "digits": Setup(ERConfig(backbone=RESNET8, first=DIGITS_SGD)),
        "mini": Setup(ERConfig(backbone=RESNET32, first=MINI_SGD)),
        **pycil(ERConfig, first=(60, 120, 170), epochs=70, later=(30, 50)),
    },
    published=(
        Published("cifar100-10", 59, None, None, "PyCIL", "recalled", is_rough=True),
        Published("cifar100-10", None, 41, None, "PyCIL", "read off its plot", is_rough=True),
    ),
)
