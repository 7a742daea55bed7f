"""Presets of gradient episodic memory. [pycil] Zhou et al., PyCIL, 2021.

Departs from [pycil]: images are cropped and flipped; there, brightness varies too.
"""

from remnant.methods.gem import GEMConfig
from remnant.recipes.presets import RESNET8, RESNET32, Preset, Published, Setup, sgd, with_replay
from remnant.recipes.protocols import CIFAR100, DIGITS_SGD, LITE, MINI_SGD, SMALL

_FIRST = sgd(200, 128, milestones=(60, 120, 170), weight_decay=5e-4)
# 100 epochs of 128 new images; as many replayed ones beside them, so that an epoch has half.
_LATER = with_replay(sgd(200, 256, milestones=(60, 120, 160), weight_decay=2e-4), 0.5)

PRESET = Preset(
    name="gem",
    # Not in 50 tasks: every step has a pass for each.
    protocols=(*SMALL, *LITE[:2], *CIFAR100[:2]),
    setups={
        "digits": Setup(GEMConfig(backbone=RESNET8, first=with_replay(DIGITS_SGD, 0.5))),
        "mini": Setup(GEMConfig(backbone=RESNET32, first=with_replay(MINI_SGD, 0.5))),
        "cifar100": Setup(
            GEMConfig(backbone=RESNET32, first=_FIRST, later=_LATER, margin=0.0),
            "PyCIL",
            order="seed-1993",
        ),
    },
    published=(Published("cifar100-10", 40, 23, None, "PyCIL family", "recalled", is_rough=True),),
)
