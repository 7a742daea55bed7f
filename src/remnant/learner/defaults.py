"""The learner's own defaults: typed settings for every method, and sizes that follow the images.

A method starts from its entry in `TUNED`; one without an entry, such as a plug-in's, from a
schedule for the kind of network that its config has. What the user sets is applied last.
"""

from __future__ import annotations

from typing import Any

from remnant.config import override
from remnant.errors import InputError
from remnant.learner.inputs import Channels
from remnant.learner.learner_state import LearnerConfig, LearnerParameters
from remnant.methods import METHODS, MethodConfig
from remnant.methods.a_gem import AGEMConfig
from remnant.methods.backbones import BackboneConfig
from remnant.methods.bimae import BilateralConfig, BiMAEConfig
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
from remnant.settings import Settings
from remnant.training.devices import Accelerator
from remnant.training.processes import TrainingConfig

# ------------------------------------------------------------------------------ typed defaults


def _schedule(optimizer: OptimizerConfig, epochs: int = 30, **changes: Any) -> Schedule:
    """A schedule; every update stretches that of training to its own epochs and batches."""
    values = {"epochs": epochs, "batch_size": 64, "optimizer": optimizer}
    return Schedule.model_validate(values | changes)


# Chosen: for residual networks the published rate (PyCIL: 0.1) under a cosine; for transformers
# what was best on a holdout (docs/methods/bimae.md); for other networks what needs least tuning.
_SGD = OptimizerConfig(lr=0.1, weight_decay=5e-4, schedule="cosine")
_ADAMW = OptimizerConfig(
    name="adamw", lr=1e-3, weight_decay=0.05, schedule="cosine", warmup_epochs=1
)
_PLAIN = OptimizerConfig(name="adam", lr=1e-3, schedule="cosine")
_CONV_SGD = OptimizerConfig(
    lr=0.05, nesterov=True, weight_decay=5e-4, schedule="cosine", warmup_epochs=1
)

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
_THIRD_NEW = _schedule(_SGD, sampling="share", new_share=(1 / 3, 1 / 3))
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
            first=_schedule(_CONV_SGD, sampling="balanced"),
            has_detail_branch=False,
            view="full",
            reconstruction="off",
            classify_weight=1.0,
            label_smoothing=0.1,
            codec_view_ratio=0.5,
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
        ExpandablePrunedConfig(**_GROWING, max_scale=50.0),
        GFRConfig(
            first=_schedule(_LIGHT_ADAM),
            backbone=BackboneConfig(name="resnet32"),
            generation=_schedule(_GAN_ADAM, 50),
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
    first=_schedule(_ADAMW, sampling="balanced"),
    classify_weight=1.0,
    exact_view_ratio=0.5,
    distill_weight=1.0,
    unmasked_ratio=0.2,
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
    optimizer = _ADAMW if "network" in fields else _SGD if "backbone" in fields else _PLAIN
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


# --------------------------------------------------------------------------- sizes and durations

# Chosen: exemplars are whole images, since more is learned from those that fit a budget than from
# patches of all (docs/results.md). For small ones the transform coder takes fewest bytes; it was
# made for them, and its time grows with the pixels (docs/codecs.md).
_LARGEST_TRANSFORMED = 64
# Chosen: a thin ResNet keeps every pixel up to its last stages, which costs minutes more at 128 px.
_LARGEST_THIN = 64
_WIDTH = {"cpu": 128, "mps": 128, "cuda": 384}  # mini scale; the paper's
_CONV_WIDTH = {"cpu": 192, "mps": 192, "cuda": 384}
_PATCHES_ACROSS = 8
# Chosen: images shown per update. About four minutes on two cores at width 128 (150 to 250
# images/s), and half as many again as the mini recipes, whose classes have 500 images.
_SHOWN = {"cpu": 45_000, "mps": 200_000, "cuda": 1_000_000}
_MIN_EPOCHS = 10  # even where a large data set then takes longer
# Chosen: so that twenty photos take seconds; on flowers 60 epochs did no worse than 140.
_MAX_EPOCHS = 100
_MIN_STEPS = 350
_TUNED = {"cpu": 4_000, "mps": 20_000, "cuda": 100_000}  # images shown, of 224 px
# Chosen: few steps pass between two checkpoints, since an update lasts minutes.
_CHECKPOINT_EVERY_STEPS = 100
_SECTIONS = ("method", "memory", "augment", "training")  # of a run's settings that a learner has


def choose_image_size(shorter_side: int, device: Accelerator) -> int:
    """32 px for thumbnails, 64 for larger images; on a GPU up to 224.

    At 128 px, training from scratch on a processor sees too few images in the time that a user
    waits.
    """
    if shorter_side <= 40:
        return 32
    if shorter_side <= 96 or device != "cuda":
        return 64
    return 224 if shorter_side > 176 else 128


def choose_patch_size(image_size: int, device: Accelerator) -> int:
    """The divisor that gives nearest to 8 patches per side; on a GPU 16 px from 128 px on.

    Raises:
        InputError: No divisor of the size gives 4 to 16 patches per side.
    """
    if device == "cuda" and image_size >= 128 and image_size % 16 == 0:
        return 16
    divisors = [side for side in range(1, image_size) if image_size % side == 0]
    fitting = [side for side in divisors if 4 <= image_size // side <= 16]
    if not fitting:
        raise InputError(
            f"image_size must be divisible into 4 to 16 patches per side; {image_size} is not. "
            "Take a multiple of 8."
        )
    return min(fitting, key=lambda side: abs(image_size // side - _PATCHES_ACROSS))


def choose_batch_size(num_images: int, device: Accelerator) -> int:
    """Small batches for few images, so that there are enough steps."""
    if device == "cuda":
        return 128
    return 32 if num_images < 2000 else 64


def choose_epochs(
    num_images: int, batch_size: int, device: Accelerator, *, is_tuned: bool = False
) -> int:
    """As many epochs as make an update last minutes, within limits; fewer images, more epochs.

    Args:
        is_tuned: A pretrained encoder is tuned, which takes longer per image and needs fewer.
    """
    shown, least, most = (_TUNED, 3, 20) if is_tuned else (_SHOWN, _MIN_EPOCHS, _MAX_EPOCHS)
    num_steps = shown[device] // batch_size
    steps_per_epoch = -(-num_images // batch_size)
    most = max(most, -(-_MIN_STEPS // steps_per_epoch))
    return min(most, max(least, num_steps // steps_per_epoch))


# ------------------------------------------------------------------------------- the first update


def choose_config(
    parameters: LearnerParameters,
    image_size: int,
    mean: Channels,
    std: Channels,
    device: Accelerator,
) -> LearnerConfig:
    """The config that the first update fixes.

    Raises:
        InputError: A parameter or an option cannot be used.
    """
    parameters, options = _options_as_parameters(parameters)
    method, memory = default_method(parameters), None
    if METHODS[method.name].uses_memory:
        smallest = "transform" if image_size <= _LARGEST_TRANSFORMED else "webp"
        suiting = METHODS[method.name].needs_codec or smallest
        memory = {"budget": parameters.budget, "codec": parameters.codec or suiting}
    config = LearnerConfig.parse(
        {
            "image_size": image_size,
            "mean": mean,
            "std": std,
            "seed": parameters.seed,
            "augment": {"train": parameters.augment or "crop-flip", "padding": image_size // 8},
            "memory": memory,
            "method": method,
        }
    )
    return override(_fit_to_images(config, parameters.width, device), options)


def _options_as_parameters(
    parameters: LearnerParameters,
) -> tuple[LearnerParameters, dict[str, Any]]:
    """Parameters with the codec and the width that options set, and the options that are left.

    Other choices depend on these two.
    """
    options, found = _options(parameters, of_training=False), {}
    for name, key in (("codec", "memory.codec"), ("width", "method.network.width")):
        if getattr(parameters, name) is None and key in options:
            found[name] = options.pop(key)
    return LearnerParameters.parse(parameters.model_dump() | found), options


def _fit_to_images(config: LearnerConfig, width: int | None, device: Accelerator) -> LearnerConfig:
    """Network and exemplars in sizes that suit the images."""
    changes: dict[str, Any] = {}  # of the method
    network = getattr(config.method, "network", None)
    if network is not None:
        if getattr(network, "encoder", "") == "conv":
            sizes = _conv_sizes(config.image_size, width or _CONV_WIDTH[device])
        else:
            sizes = _network_sizes(config.image_size, width or _WIDTH[device], device)
        known = {name: size for name, size in sizes.items() if hasattr(network, name)}
        changes["network"] = network.model_copy(update=known)
    if width is not None and not hasattr(network, "width"):
        raise InputError(f"the network of {config.method.name} has no width. Leave it out.")
    backbone = getattr(config.method, "backbone", None)
    if isinstance(backbone, BackboneConfig) and config.image_size > _LARGEST_THIN:
        changes["backbone"] = backbone.model_copy(update={"name": "resnet18", "stem": "large"})
    memory = config.memory
    if memory is not None and hasattr(memory.codec, "patch_size"):
        if "patch_size" not in memory.codec.model_fields_set:
            size = {"patch_size": choose_patch_size(config.image_size, device)}
            codec = memory.codec.model_copy(update=size)
            memory = memory.model_copy(update={"codec": codec})
    elif isinstance(config.method, BiMAEConfig):
        changes["exact_view_ratio"] = 0.0  # only exemplars stored as patches have exact views
    method = config.method.model_copy(update=changes)
    return config.model_copy(update={"method": method, "memory": memory})


def _conv_sizes(image_size: int, width: int) -> dict[str, Any]:
    """As many stages, which halve the map, as leave 4 cells per side or more.

    Raises:
        InputError: The size is odd.
    """
    num_stages = 0
    while num_stages < 5 and image_size % 2 ** (num_stages + 1) == 0:
        if image_size // 2 ** (num_stages + 1) < 4:
            break
        num_stages += 1
    if num_stages == 0:
        raise InputError(
            f"image_size must be even and at least 8; got {image_size}. Take a multiple of 8."
        )
    # Chosen: of 192 the channels of the mini recipes; stages before them are thin, so that larger
    # images cost little more.
    channels = [max(1, width * part // 48) for part in (3, 6, 12, 40, 48)][-num_stages:]
    return {
        "channels": tuple(channels),
        "stem_channels": max(1, channels[0] // 2),
        "patch_size": 2**num_stages,
        "width": width,
    }


def _network_sizes(image_size: int, width: int, device: Accelerator) -> dict[str, int]:
    """In proportion to the width: four attention heads at least, hidden layers four times."""
    return {
        "patch_size": choose_patch_size(image_size, device),
        "width": width,
        "head_width": 32 if width % 32 == 0 and width >= 128 else width // 4,
        "mlp_width": 4 * width,
        "fusion_mlp_width": 4 * width,
    }


# ----------------------------------------------------------------------------------- every update


class _Execution(Settings):
    training: TrainingConfig


def choose_training(parameters: LearnerParameters) -> TrainingConfig:
    """The device, threads and checkpoints of updates and predictions.

    Raises:
        InputError: A parameter or an option cannot be used.
    """
    default = TrainingConfig(
        accelerator=parameters.accelerator,
        threads=parameters.threads,
        checkpoint_every_steps=_CHECKPOINT_EVERY_STEPS,
    )
    options = _options(parameters, of_training=True)
    training = override(_Execution(training=default), options).training
    if training.devices * training.num_nodes > 1:
        raise InputError("a learner runs in one process. Leave out training.devices.")
    return training


def _options(parameters: LearnerParameters, *, of_training: bool) -> dict[str, Any]:
    options = parameters.options or {}
    for key in options:
        if key.partition(".")[0] not in _SECTIONS:
            raise InputError(
                f"options must be settings of {', '.join(_SECTIONS)}; got {key!r}. Leave it out."
            )
        schedule, _, name = key.rpartition(".")
        if schedule in ("method.first", "method.later") and name in ("epochs", "batch_size"):
            raise InputError(f"{key} cannot be an option. Give {name} to the learner itself.")
    return {
        key: value for key, value in options.items() if key.startswith("training.") == of_training
    }


def schedule_update(
    method: MethodConfig, parameters: LearnerParameters, num_images: int, device: Accelerator
) -> MethodConfig:
    """The method's config with the schedule of one update over so many images."""
    if not METHODS[method.name].trains:
        return method
    batch_size = parameters.batch_size or choose_batch_size(num_images, device)
    is_tuned = hasattr(method, "encoder")
    epochs = parameters.epochs or choose_epochs(num_images, batch_size, device, is_tuned=is_tuned)
    schedules = {"first": method.first, "later": method.later}
    return method.model_copy(
        update={
            name: _stretched(schedule, epochs, batch_size, parameters.learning_rate)
            for name, schedule in schedules.items()
            if schedule is not None
        }
    )


def _stretched(schedule: Schedule, epochs: int, batch_size: int, lr: float | None) -> Schedule:
    longer = schedule.stretched(epochs)
    optimizer = longer.optimizer if lr is None else longer.optimizer.model_copy(update={"lr": lr})
    return longer.model_copy(update={"batch_size": batch_size, "optimizer": optimizer})


def describe(config: LearnerConfig) -> str:
    """The chosen settings in one line."""
    parts = [f"images of {config.image_size} px"]
    encoder = getattr(config.method, "encoder", None)
    if encoder is not None:
        parts.insert(0, f"on the pretrained encoder {encoder.name} ({encoder.licence})")
    network = config.model_dump()["method"].get("network", {})
    if network.get("encoder") == "conv":
        parts.append(f"convolutions of {', '.join(map(str, network['channels']))} channels")
    elif {"patch_size", "width"} <= set(network):
        parts.append(f"patches of {network['patch_size']} px, width {network['width']}")
    if config.memory is not None:
        parts.append(f"memory of {config.memory.budget} as {config.memory.codec.name}")
    if METHODS[config.method.name].trains:
        first = config.method.first
        parts.append(f"{first.epochs:,} epochs of batches of {first.batch_size}")
    return f"{config.method.name}: {'; '.join(parts)}"
