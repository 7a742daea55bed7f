"""Presets: what a method is given at each scale, for which protocols, and what was published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from remnant.errors import InputError, nearest
from remnant.memory import CodecConfig
from remnant.methods import MethodConfig
from remnant.methods.backbones import BackboneConfig
from remnant.phases import OptimizerConfig, Schedule
from remnant.recipes.protocols import PROTOCOLS, Scale

SOURCES = {
    "[bimae]": "Zhai et al., ICCV 2023",
    "[dytox]": "Douillard et al., CVPR 2022, table of its repository",
}


@dataclass(frozen=True)
class Published:
    """What somebody else reports for one protocol, in percent; None where nothing is reported."""

    protocol: str
    avg: float | None
    last: float | None
    forgetting: float | None
    source: str
    note: str = ""  # how the setting differs from the recipe, or why the number is uncertain
    parameters: float | None = None  # in millions
    top: int = 1  # 5: an image counts as right if its class is among five guesses
    is_rough: bool = False  # recalled, or read off a plot


@dataclass(frozen=True)
class Setup:
    """What a method is given at one scale, where that is more than the protocol says."""

    method: MethodConfig
    source: str = ""  # whose settings these are; "": chosen here
    about: str = ""  # what sets it apart, in a few words
    order: str | None = None  # of classes; None: that of the protocol
    rand_augment: bool = False
    budget: str | None = None  # None: that of the protocol
    codec: CodecConfig | None = None  # None: raw
    selection: Literal["herding", "random"] = "herding"  # of exemplars
    count_overhead: bool = True


@dataclass(frozen=True)
class Preset:
    """A method, or a variant of one, ready to run under each of its protocols."""

    name: str  # that of the method, with that of a variant: "dytox-plus"
    protocols: tuple[str, ...]
    setups: Mapping[Scale, Setup]
    published: tuple[Published, ...] = ()
    num_tasks: int | None = None  # None: those of the protocol

    def setup(self, scale: Scale) -> Setup | None:
        """What the method is given at a scale; None where nothing is."""
        if scale in self.setups or "mini" not in self.setups:
            return self.setups.get(scale)
        made = {"lite": _shorten, "folder": _in_small_batches}
        return made[scale](self.setups["mini"]) if scale in made else None


def _shorten(setup: Setup) -> Setup:
    """The same setup in a fifth of the epochs, of every one of its schedules."""
    schedules = {name: _fifth(value) for name, value in setup.method if isinstance(value, Schedule)}
    return replace(setup, method=setup.method.model_copy(update=schedules))


def _in_small_batches(setup: Setup) -> Setup:
    """The same setup for few images: as many epochs, in batches half as large."""
    schedules = {
        name: value.model_copy(update={"batch_size": -(-value.batch_size // 2)})
        for name, value in setup.method
        if isinstance(value, Schedule)
    }
    return replace(setup, method=setup.method.model_copy(update=schedules))


def _fifth(schedule: Schedule) -> Schedule:
    optimizer = schedule.optimizer
    shorter = {
        "warmup_epochs": optimizer.warmup_epochs / 5,
        "milestones": tuple(epoch / 5 for epoch in optimizer.milestones),
    }
    return schedule.model_copy(
        update={
            "epochs": -(-schedule.epochs // 5),
            "optimizer": optimizer.model_copy(update=shorter),
        }
    )


def check_preset(preset: Preset) -> None:
    """Raises InputError where a recipe of the preset could not be made."""
    if not isinstance(preset, Preset):
        raise InputError(f"a plug-in for recipes must be a Preset; got {preset!r}.")
    for name in preset.protocols:
        if name not in PROTOCOLS:
            raise InputError(
                f"a protocol of the preset {preset.name} must be one of {', '.join(PROTOCOLS)}; "
                f"got {name!r}.{nearest(name, PROTOCOLS)}"
            )
        if preset.setup(scale := PROTOCOLS[name].scale) is None:
            raise InputError(f"the preset {preset.name} needs a setup {scale!r} for {name}.")
    for row in preset.published:
        if row.protocol not in preset.protocols:
            raise InputError(f"{preset.name} has a number for {row.protocol}, but no recipe.")


RESNET8 = BackboneConfig(name="resnet8")
RESNET32 = BackboneConfig(name="resnet32")
RESNET18_224 = BackboneConfig(name="resnet18", stem="large")


def sgd(epochs: int, batch_size: int, **optimizer: Any) -> Schedule:
    """SGD with momentum 0.9 and a rate of 0.1, which falls to a tenth at `milestones` if any."""
    falls = {"schedule": "steps"} if "milestones" in optimizer else {}
    return Schedule(
        epochs=epochs,
        batch_size=batch_size,
        optimizer=OptimizerConfig.parse({"name": "sgd", "lr": 0.1} | falls | optimizer),
    )


def with_replay(schedule: Schedule, new_share: float) -> Schedule:
    """The schedule with so much of every batch new; an epoch has as many images as are new."""
    shares = {"sampling": "share", "new_share": (new_share, new_share), "steps_from": "new"}
    return schedule.model_copy(update=shares)


def pycil(
    config: type[MethodConfig],
    first: tuple[float, ...],
    epochs: int,
    later: tuple[float, ...],
    **options: Any,
) -> dict[Scale, Setup]:
    """Full scale as in PyCIL: milestones of the first task, epochs and milestones of later ones.

    Departs from PyCIL: images are cropped and flipped; there, brightness varies too.
    """

    def configure(backbone: BackboneConfig, size: int) -> MethodConfig:
        schedules = {
            "first": sgd(200, size, milestones=first, weight_decay=5e-4),
            "later": sgd(epochs, size, milestones=later, weight_decay=2e-4),
        }
        return config.parse({"backbone": backbone} | schedules | options)

    return {
        "cifar100": Setup(configure(RESNET32, 128), "PyCIL", order="seed-1993"),
        # Chosen: the schedules for CIFAR-100, in larger batches.
        "imagenet": Setup(configure(RESNET18_224, 256), "PyCIL on CIFAR-100"),
    }
