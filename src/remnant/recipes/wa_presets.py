"""Presets of weight alignment. [pycil] Zhou et al., PyCIL, 2021. [wa] Zhao et al., CVPR 2020.

Chosen: short schedules clip as [wa] does, since otherwise the rows of new classes are still shorter
than old ones when training ends: see docs/methods/wa.md.
"""

from remnant.methods.wa import WAConfig
from remnant.recipes.presets import RESNET8, RESNET32, Preset, Published, Setup, pycil
from remnant.recipes.protocols import DIGITS_SGD, MINI_SGD, USUAL

PRESET = Preset(
    name="wa",
    protocols=USUAL,
    setups={
        "digits": Setup(WAConfig(backbone=RESNET8, first=DIGITS_SGD, has_positive_rows=True)),
        "mini": Setup(WAConfig(backbone=RESNET32, first=MINI_SGD, has_positive_rows=True)),
        **pycil(WAConfig, first=(60, 120, 170), epochs=170, later=(60, 100, 140)),
    },
    published=(
        Published("cifar100-10", None, 52, None, "PyCIL", "read off its plot", is_rough=True),
    ),
)
