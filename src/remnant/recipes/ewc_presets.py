"""Presets of elastic weight consolidation. [pycil] Zhou et al., PyCIL, 2021."""

from remnant.methods.ewc import EWCConfig
from remnant.recipes.presets import RESNET8, RESNET32, Preset, Published, Setup, pycil
from remnant.recipes.protocols import DIGITS_SGD, MINI_SGD, USUAL

PRESET = Preset(
    name="ewc",
    protocols=USUAL,
    setups={
        "digits": Setup(EWCConfig(backbone=RESNET8, first=DIGITS_SGD)),
        "mini": Setup(EWCConfig(backbone=RESNET32, first=MINI_SGD)),
        **pycil(EWCConfig, first=(60, 120, 170), epochs=180, later=(70, 120, 150)),
    },
    published=(Published("cifar100-10", 30, 12, None, "PyCIL family", "recalled", is_rough=True),),
)
