"""Presets of DER++. [dark] Buzzega et al., NeurIPS 2020. mammoth is the code of its authors."""

from remnant.methods.backbones import BackboneConfig
from remnant.methods.dark_replay import DarkReplayConfig
from remnant.recipes.presets import RESNET8, RESNET32, Preset, Setup, sgd, with_replay
from remnant.recipes.protocols import CIFAR100, DIGITS_SGD, LITE, MINI_SGD, SMALL

_NEW_SHARE = 1 / 3  # to each new image one for its scores and one for its label [dark]
_FIRST = sgd(50, 32, momentum=0.0, lr=0.03, milestones=(35, 45), gamma=0.2)
# A batch of 32 new and 64 replayed images: an epoch has a third of the new ones.
_LATER = with_replay(
    sgd(150, 96, momentum=0.0, lr=0.03, milestones=(105, 135), gamma=0.2), _NEW_SHARE
)
# Chosen: at the rate of all small recipes, thirty times the published one with its momentum, the
# squared error of the scores diverges in the second task unless gradients are clipped.
_CLIPPED = MINI_SGD.model_copy(
    update={"optimizer": MINI_SGD.optimizer.model_copy(update={"clip_norm": 1.0})}
)

PRESET = Preset(
    name="derpp",
    protocols=(*SMALL, *LITE, *CIFAR100),
    setups={
        "digits": Setup(
            DarkReplayConfig(backbone=RESNET8, first=with_replay(DIGITS_SGD, _NEW_SHARE)),
            selection="random",
        ),
        "mini": Setup(
            DarkReplayConfig(backbone=RESNET32, first=with_replay(_CLIPPED, _NEW_SHARE)),
            selection="random",
        ),
        "cifar100": Setup(
            DarkReplayConfig(backbone=BackboneConfig(name="resnet18"), first=_FIRST, later=_LATER),
            "mammoth",
            selection="random",
        ),
    },
)
