"""Presets of PASS. [pass] Zhu et al., CVPR 2021."""

from remnant.methods.backbones import BackboneConfig
from remnant.methods.prototype_augmentation import PASSConfig
from remnant.phases import OptimizerConfig, Schedule
from remnant.recipes.presets import RESNET8, RESNET32, Preset, Setup
from remnant.recipes.protocols import CIFAR100, LITE, SMALL, mini_schedule

_ADAM = OptimizerConfig(name="adam", lr=1e-3, weight_decay=2e-4)
_RELEASED = _ADAM.model_copy(update={"schedule": "steps", "milestones": (45.0, 90.0)})
_COSINE = _ADAM.model_copy(update={"schedule": "cosine"})  # suits short schedules

PRESET = Preset(
    name="pass",
    protocols=(*SMALL, *LITE, *CIFAR100),
    setups={
        "digits": Setup(
            PASSConfig(
                backbone=RESNET8, first=Schedule(epochs=15, batch_size=32, optimizer=_COSINE)
            )
        ),
        "mini": Setup(PASSConfig(backbone=RESNET32, first=mini_schedule(_COSINE))),
        "cifar100": Setup(
            PASSConfig(
                backbone=BackboneConfig(name="resnet18"),
                first=Schedule(epochs=101, batch_size=64, optimizer=_RELEASED),
            ),
            "its release",
            order="seed-1993",
        ),
    },
)
