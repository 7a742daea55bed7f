"""Presets of GFR. [gfr] Liu et al., CVPR workshops 2020. [bimae] Zhai et al., ICCV 2023."""

from remnant.methods.backbones import BackboneConfig
from remnant.methods.gfr import GENERATION, GFRConfig
from remnant.phases import OptimizerConfig, Schedule
from remnant.recipes.presets import RESNET8, RESNET18_224, RESNET32, Preset, Published, Setup
from remnant.recipes.protocols import CIFAR100, IMAGENET_SUBSET, LITE, SMALL, mini_schedule


def _adam(epochs: int, last: float) -> Schedule:
    """As released: the rate falls to a tenth at the last epoch."""
    optimizer = OptimizerConfig(
        name="adam", lr=1e-3, weight_decay=2e-4, schedule="steps", milestones=(last,)
    )
    return Schedule(epochs=epochs, batch_size=128, optimizer=optimizer)


def _generation(epochs: int, batch_size: int) -> Schedule:
    """Chosen: ten times the rate under a cosine, and small batches, since the steps are few.

    See docs/methods/gfr.md for what larger batches do.
    """
    optimizer = OptimizerConfig(name="adam", lr=1e-3, betas=(0.5, 0.999), schedule="cosine")
    return Schedule(epochs=epochs, batch_size=batch_size, optimizer=optimizer)


# Chosen: the released rate under a cosine, which suits short schedules.
_COSINE = OptimizerConfig(name="adam", lr=1e-3, weight_decay=2e-4, schedule="cosine")
_DIGITS = Schedule(epochs=15, batch_size=32, optimizer=_COSINE)
_FOR_IMAGENET = GENERATION.model_copy(
    update={
        "epochs": 201,
        "optimizer": GENERATION.optimizer.model_copy(update={"milestones": (200,)}),
    }
)

PRESET = Preset(
    name="gfr",
    protocols=(*SMALL, *LITE, *CIFAR100, *IMAGENET_SUBSET),
    setups={
        "digits": Setup(GFRConfig(backbone=RESNET8, first=_DIGITS, generation=_generation(30, 8))),
        "mini": Setup(
            GFRConfig(
                backbone=RESNET32, first=mini_schedule(_COSINE), generation=_generation(50, 16)
            )
        ),
        "cifar100": Setup(
            GFRConfig(backbone=BackboneConfig(name="resnet18"), first=_adam(201, 200)),
            "its release",
            order="seed-1993",
        ),
        # On 100 other classes than [gfr].
        "imagenet": Setup(
            GFRConfig(backbone=RESNET18_224, first=_adam(101, 100), generation=_FOR_IMAGENET),
            "its release",
        ),
    },
    published=(
        Published("cifar100-10", 62.44, 51.30, None, "[bimae] table 9", "settings not stated"),
    ),
)
