"""Presets of joint training. [dytox] Douillard et al., CVPR 2022, the table of its repository."""

from remnant.methods.joint import JointConfig
from remnant.recipes.presets import RESNET8, RESNET18_224, RESNET32, Preset, Published, Setup, sgd
from remnant.recipes.protocols import DIGITS_SGD, MINI_SGD, SMALL

_FIRST = sgd(200, 128, milestones=(60, 120, 160), weight_decay=5e-4)
_RESNET18 = "ResNet-18; one of three settings"
_TRANSFORMER = "transformer of DyTox, which is not here"

PRESET = Preset(
    name="joint",
    num_tasks=1,
    protocols=(*SMALL, "cifar100-lite", "cifar100", "imagenet-subset", "imagenet-full"),
    setups={
        "digits": Setup(JointConfig(backbone=RESNET8, first=DIGITS_SGD)),
        "mini": Setup(JointConfig(backbone=RESNET32, first=MINI_SGD)),
        "cifar100": Setup(
            JointConfig(backbone=RESNET32, first=_FIRST), "common practice", order="seed-1993"
        ),
        # Chosen: the schedule for CIFAR-100, in larger batches.
        "imagenet": Setup(
            JointConfig(backbone=RESNET18_224, first=_FIRST.model_copy(update={"batch_size": 256}))
        ),
    },
    published=(
        Published("cifar100", None, 80.41, None, "[dytox]", _RESNET18),
        Published("cifar100", None, 81.49, None, "[dytox]", _RESNET18),
        Published("cifar100", None, 81.74, None, "[dytox]", _RESNET18),
        Published("cifar100", None, 76.12, None, "[dytox]", _TRANSFORMER),
        Published("imagenet-subset", None, 95.10, None, "[dytox]", "ResNet-18", top=5),
        Published("imagenet-subset", None, 79.12, None, "[dytox]", _TRANSFORMER),
        Published("imagenet-subset", None, 93.48, None, "[dytox]", _TRANSFORMER, top=5),
    ),
)
