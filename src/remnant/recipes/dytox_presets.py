"""Presets of DyTox, DyTox+ and DyTox with masked exemplars.

[dytox] Douillard et al., CVPR 2022, corrected in its repository. [bimae] Zhai et al., ICCV 2023.

Departs from [dytox]: repeated views go through all images before any comes again; the release
shuffles anew in every epoch.
Departs from [dytox]: learning rates move at every step, and their cosine begins after the warm-up.
Departs from [dytox]: on GPUs that have it, bfloat16 unless `training.precision=32-true`; released,
CIFAR-100 is trained in float32.
"""

from dataclasses import replace

from remnant.memory import PatchesConfig
from remnant.methods.dytox import DyToxConfig, MixupConfig, TaskTransformerConfig
from remnant.phases import OptimizerConfig, Schedule
from remnant.recipes.presets import Preset, Published, Setup
from remnant.recipes.protocols import SMALL, USUAL, Scale, mini_schedule

_TINY = TaskTransformerConfig(width=64, depth=3, head_width=16, mlp_width=256)
_SMALL = TaskTransformerConfig(width=128, mlp_width=512)


def _adamw(lr: float, **schedule: float | str) -> OptimizerConfig:
    return OptimizerConfig.parse(
        {"name": "adamw", "lr": lr, "weight_decay": 1e-6, "decay_norms_and_biases": False}
        | schedule
    )


def _tuning(batch_size: int, lr: float, views_per_image: int = 1) -> Schedule:
    """On the memory. Chosen: short runs keep its epochs, and a tenth of the rate of training."""
    return Schedule(
        epochs=20, batch_size=batch_size, views_per_image=views_per_image, optimizer=_adamw(lr)
    )


# Chosen on a holdout of the training images; see docs/methods/dytox.md.
_SHORT = _adamw(5e-4, schedule="cosine", warmup_epochs=1)
_DIGITS = Schedule(epochs=15, batch_size=32, steps_from="new", optimizer=_SHORT)
_MINI = mini_schedule(_SHORT)
# What [dytox] was trained with on two GPUs of 128 images each; rates are for 512 images.
_RELEASED = Schedule(
    epochs=500,
    batch_size=256,
    views_per_image=3,
    optimizer=_adamw(
        5e-4 * 256 / 512, schedule="cosine", min_lr=1e-5, warmup_epochs=5, warmup_lr=1e-6
    ),
)
_TUNING_LR = 5e-5 * 256 / 512

_PLAIN: dict[Scale, Setup] = {
    "digits": Setup(
        DyToxConfig(network=_TINY, first=_DIGITS, balanced_tuning=_tuning(32, lr=5e-5))
    ),
    "mini": Setup(DyToxConfig(network=_SMALL, first=_MINI, balanced_tuning=_tuning(64, lr=5e-5))),
    "cifar100": Setup(
        DyToxConfig(first=_RELEASED, balanced_tuning=_tuning(256, _TUNING_LR, views_per_image=3)),
        "its release",
        order="icarl",
        rand_augment=True,
    ),
    "imagenet": Setup(
        DyToxConfig(
            network=TaskTransformerConfig(patch_size=16),
            first=_RELEASED,
            balanced_tuning=_tuning(256, _TUNING_LR),
        ),
        "its release",
        rand_augment=True,
    ),
}
_MIXED = {"mixup": MixupConfig()}
# Masked exemplars are quarters of images; at full scale pixels alone count, as in [bimae].
_QUARTERS = PatchesConfig()

_CORRECTED = "half of the memory on each of two GPUs; one memory is expected lower"
_ONE_MEMORY = "one memory for all GPUs"
_LEVEL = "at the level of DyTox+ before its memory was corrected"
_BEFORE = "before its memory was corrected"

PRESETS = (
    Preset(
        name="dytox",
        protocols=(*USUAL, "imagenet-full"),
        setups=_PLAIN,
        published=(
            Published("cifar100-10", 71.50, 57.76, None, "[dytox]", _CORRECTED, 10.73),
            Published("cifar100-20", 68.86, 51.47, None, "[dytox]", _CORRECTED, 10.74),
            Published("cifar100-50", 64.82, 45.61, None, "[dytox]", _CORRECTED, 10.77),
            Published("cifar100-10", 75.47, 62.10, 15.43, "[bimae] tables 1, 7", _LEVEL, 10.73),
            Published("cifar100-20", 75.10, 59.41, 21.60, "[bimae] table 1", _LEVEL),
            Published("cifar100-50", 73.89, 57.21, 24.22, "[bimae] table 1", _LEVEL),
            Published("imagenet-subset-10", 71.85, 57.94, None, "[dytox]", _ONE_MEMORY),
            Published("imagenet-subset-10", 77.15, 69.10, 14.66, "[bimae] table 2", _BEFORE),
            Published("imagenet-subset-20", 73.13, 61.87, 17.32, "[bimae] table 2"),
            Published("imagenet-subset-50", 71.51, 60.02, 20.54, "[bimae] table 2"),
            Published("imagenet-full", 71.29, 63.34, None, "[bimae] table 3", _BEFORE),
            Published("imagenet-full", 88.59, 84.49, None, "[bimae] table 3", _BEFORE, top=5),
        ),
    ),
    Preset(
        name="dytox-plus",
        protocols=USUAL,
        setups={
            scale: replace(setup, method=setup.method.model_copy(update=_MIXED))
            for scale, setup in _PLAIN.items()
        },
        published=(
            Published("cifar100-10", 74.10, 62.34, None, "[dytox]", _CORRECTED),
            Published("cifar100-20", 71.62, 57.43, None, "[dytox]", _CORRECTED),
            Published("cifar100-50", 68.90, 51.09, None, "[dytox]", _CORRECTED),
            Published("imagenet-subset-10", 77.62, 65.94, None, "[dytox]", _ONE_MEMORY),
        ),
    ),
    Preset(
        name="dytox-masked",
        protocols=(*SMALL, "cifar100-lite-10", "cifar100-10"),
        setups={
            "digits": replace(_PLAIN["digits"], codec=_QUARTERS),
            "mini": replace(_PLAIN["mini"], codec=_QUARTERS),
            "cifar100": replace(_PLAIN["cifar100"], codec=_QUARTERS, count_overhead=False),
        },
        published=(Published("cifar100-10", None, 65.46, None, "[bimae] table 8"),),
    ),
)
