"""Presets of averaged gradient episodic memory. mammoth: Buzzega et al., NeurIPS 2020."""

from remnant.methods.a_gem import AGEMConfig
from remnant.methods.backbones import BackboneConfig
from remnant.recipes.presets import RESNET8, RESNET32, Preset, Setup, sgd, with_replay
from remnant.recipes.protocols import CIFAR100, DIGITS_SGD, LITE, MINI_SGD, SMALL

_FIRST = sgd(50, 32, momentum=0.0, lr=0.03, milestones=(35, 45), gamma=0.2)
# 50 epochs of 32 new images; as many replayed ones beside them, so that an epoch has half.
_LATER = with_replay(sgd(100, 64, momentum=0.0, lr=0.03, milestones=(70, 90), gamma=0.2), 0.5)

PRESET = Preset(
    name="a-gem",
    protocols=(*SMALL, *LITE, *CIFAR100),
    setups={
        "digits": Setup(AGEMConfig(backbone=RESNET8, first=with_replay(DIGITS_SGD, 0.5))),
        "mini": Setup(AGEMConfig(backbone=RESNET32, first=with_replay(MINI_SGD, 0.5))),
        "cifar100": Setup(
            AGEMConfig(backbone=BackboneConfig(name="resnet18"), first=_FIRST, later=_LATER),
            "mammoth",
        ),
    },
)
