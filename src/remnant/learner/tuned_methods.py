"""Settings of every method for a learner, before sizes that follow the images and options.

A method starts from its entry in `TUNED`; one without an entry, such as a plug-in's, from a
schedule for the kind of network that its config has.
"""

from __future__ import annotations

from typing import Any

from remnant.errors import InputError
from remnant.learner.learner_state import LearnerParameters
from remnant.methods import METHODS, MethodConfig
from remnant.methods.a_gem import AGEMConfig
from remnant.methods.backbones import BackboneConfig
from remnant.methods.bimae import BilateralConfig, BiMAEConfig
from remnant.methods.bimae_best import (
    BEST_OPTIMIZER,
    BEST_OPTIONS,
    BEST_PATCH_OPTIMIZER,
    BEST_PATCH_OPTIONS,
)
from remnant.methods.cim import CIMConfig
from remnant.methods.dark_replay import DarkReplayConfig
from remnant.methods.dytox import DyToxConfig
from remnant.methods.expandable import ExpandableConfig
from remnant.methods.expandable_pruned import ExpandablePrunedConfig
from remnant.methods.gem import GEMConfig
from remnant.methods.gfr import GFRConfig
from remnant.methods.icarl import ICaRLConfig
from remnant.methods.mecil import MECILConfig
from remnant.methods.mnemonics import PIXELS, MnemonicsConfig
from remnant.methods.podnet import PODNetConfig
from remnant.methods.prototype_augmentation import PASSConfig
from remnant.methods.simple_expandable import SimpleExpandableConfig
from remnant.methods.tagfex import TagFexConfig
from remnant.methods.wa import WAConfig
from remnant.methods.wrapping import UNUSED
from remnant.phases import OptimizerConfig, Schedule


def _schedule(optimizer: OptimizerConfig, epochs: int = 30, **changes: Any) -> Schedule:
    """A schedule; every update stretches that of training to its own epochs and batches."""
    values = {"epochs": epochs, "batch_size": 64, "optimizer": optimizer}
    return Schedule.model_validate(values | changes)


# Chosen: for residual networks the published rate (PyCIL: 0.1) under a cosine; for transformers
# what was best on a holdout (docs/methods/bimae.md); for other networks what needs least tuning.
_SGD = OptimizerConfig(lr=0.1, weight_decay=5e-4, schedule="cosine")
_PLAIN = OptimizerConfig(name="adam", lr=1e-3, schedule="cosine")
_WARM_SGD = _SGD.model_copy(update={"warmup_epochs": 2.0})
_ICARL_SGD = _SGD.model_copy(update={"lr": 0.2, "weight_decay": 2e-5})
_COMPRESSING_SGD = _SGD.model_copy(update={"lr": 0.01})
_TUNING_SGD = OptimizerConfig(lr=0.1, weight_decay=5e-4, schedule="steps", milestones=(15,))
_CLIPPED_SGD = OptimizerConfig(lr=0.05, weight_decay=5e-4, clip_value=5)
_LIGHT_ADAMW = OptimizerConfig(
    name="adamw", lr=5e-5, weight_decay=1e-6, decay_norms_and_biases=False
)
_DYTOX_ADAMW = _LIGHT_ADAMW.model_copy(
    update={"lr": 5e-4, "schedule": "cosine", "warmup_epochs": 1.0}
)
_LIGHT_ADAM = _PLAIN.model_copy(update={"weight_decay": 2e-4})
_HALF_NEW = _schedule(_SGD, sampling="share", new_share=(0.5, 0.5))
_THIRD_NEW = _schedule(
    _SGD.model_copy(update={"clip_norm": 1.0}), sampling="share", new_share=(1 / 3, 1 / 3)
)
_GAN_ADAM = _PLAIN.model_copy(update={"betas": (0.5, 0.999)})
_GROWING: dict[str, Any] = {
    "first": _schedule(_WARM_SGD),
    "backbone": BackboneConfig(name="resnet32"),
    "balanced_tuning": _schedule(_TUNING_SGD),
}

# What the mini recipes of these methods were tuned to (docs/methods), as far as it is not a default
# of their configs. The sizes of networks are chosen for the images.
TUNED: dict[str, MethodConfig] = {
    config.name: config
    for config in (
        AGEMConfig(first=_HALF_NEW),
        BiMAEConfig(
            network=BilateralConfig(encoder="conv", patch_size=8),
            first=_schedule(BEST_OPTIMIZER, sampling="balanced"),
            **BEST_OPTIONS,
        ),
        GEMConfig(first=_HALF_NEW),
        PASSConfig(first=_schedule(_LIGHT_ADAM), backbone=BackboneConfig(name="resnet32")),
        CIMConfig(
            first=_schedule(_SGD),
            base=WAConfig(first=UNUSED, has_positive_rows=True),
            refresh_every_epochs=10,
        ),
        DarkReplayConfig(first=_THIRD_NEW),
        DyToxConfig(first=_schedule(_DYTOX_ADAMW), balanced_tuning=_schedule(_LIGHT_ADAMW, 20)),
        ExpandableConfig(**_GROWING),
        ExpandablePrunedConfig(**_GROWING, max_scale=50.0, sparsity_weight=0.4),
        GFRConfig(
            first=_schedule(_LIGHT_ADAM),
            backbone=BackboneConfig(name="resnet32"),
            generation=_schedule(_GAN_ADAM, 50, batch_size=16),
        ),
        ICaRLConfig(first=_schedule(_ICARL_SGD)),
        MECILConfig(first=_schedule(_ICARL_SGD)),
        MnemonicsConfig(first=_schedule(_SGD), pixels=PIXELS.model_copy(update={"batch_size": 32})),
        PODNetConfig(first=_schedule(_SGD), balanced_tuning=_schedule(_CLIPPED_SGD, 20)),
        SimpleExpandableConfig(**_GROWING, compression=_schedule(_COMPRESSING_SGD, 6)),
        TagFexConfig(
            first=_schedule(_SGD, views_per_image=2),
            backbone=BackboneConfig(name="resnet32"),
            projector_hidden_width=256,
            projector_width=128,
        ),
        WAConfig(first=_schedule(_SGD), has_positive_rows=True),
    )
}


# Of exemplars stored as patches, which a transformer completes.
_BIMAE_PATCHES = BiMAEConfig(
    first=_schedule(BEST_PATCH_OPTIMIZER, sampling="balanced"), **BEST_PATCH_OPTIONS
)
_PATCH_CODECS = ("patches", "coded-patches")


def default_method(parameters: LearnerParameters) -> MethodConfig:
    """The config of a method before sizes and options: any registered method has one.

    Raises:
        InputError: There is no such method, or its config needs a setting that is not given.
    """
    name = parameters.method
    assert name is not None, "the method is chosen before its settings"
    config = METHODS.find(name, "method").Config
    if name == "bimae" and _codec_name(parameters) in _PATCH_CODECS:
        return _BIMAE_PATCHES
    if name in TUNED:
        return TUNED[name]
    if parameters.encoder is not None:
        return config.parse({"name": name, "encoder": parameters.encoder})
    fields = config.model_fields
    optimizer = (
        BEST_PATCH_OPTIMIZER if "network" in fields else _SGD if "backbone" in fields else _PLAIN
    )
    needed = [field for field in fields if fields[field].is_required() and field != "first"]
    given, options = {}, parameters.options or {}
    for field in needed:
        if f"method.{field}" not in options:
            raise InputError(
                f"method.{field} must be given: {name} has no default for it. Add it to the "
                "options."
            )
        given[field] = options[f"method.{field}"]
    return config.parse({"name": name, "first": _schedule(optimizer), **given})


def _codec_name(parameters: LearnerParameters) -> str | None:
    codec = parameters.codec
    return codec.get("name") if isinstance(codec, dict) else codec
