"""Presets of DER++. [dark] Buzzega et al., NeurIPS 2020. mammoth is the code of its authors."""

from typing import Any

from remnant.methods.backbones import BackboneConfig
from remnant.methods.dark_replay import DarkReplayConfig
from remnant.phases import Schedule
from remnant.recipes.presets import RESNET8, RESNET32, Preset, Setup, sgd
from remnant.recipes.protocols import CIFAR100, DIGITS_SGD, LITE, MINI_SGD, SMALL


def _with_two_batches(schedule: Schedule, **changes: Any) -> Schedule:
    """To each new image two of the memory, one for its scores and one for its label [dark]."""
    shares = {"sampling": "share", "new_share": (1 / 3, 1 / 3), "steps_from": "new"}
    return schedule.model_copy(update=shares | changes)


_FIRST = sgd(50, 32, momentum=0.0, lr=0.03, milestones=(35, 45), gamma=0.2)
# A batch of 32 new and 64 replayed images: an epoch has a third of the new ones.
_LATER = _with_two_batches(
    sgd(150, 96, momentum=0.0, lr=0.03, milestones=(105, 135), gamma=0.2),
)

PRESET = Preset(
    name="derpp",
    protocols=(*SMALL, *LITE, *CIFAR100),
    setups={
        "digits": Setup(
            DarkReplayConfig(backbone=RESNET8, first=_with_two_batches(DIGITS_SGD)),
            selection="random",
        ),
        "mini": Setup(
            DarkReplayConfig(backbone=RESNET32, first=_with_two_batches(MINI_SGD)),
            selection="random",
        ),
        "cifar100": Setup(
            DarkReplayConfig(backbone=BackboneConfig(name="resnet18"), first=_FIRST, later=_LATER),
            "mammoth",
            selection="random",
        ),
    },
)
