"""The learner's own defaults: what the first update fixes, and the schedule of every update.

What the user sets is applied last.
"""

from __future__ import annotations

import math
from typing import Any

from remnant.config import override
from remnant.errors import InputError
from remnant.learner.inputs import Channels
from remnant.learner.learner_state import LearnerConfig, LearnerParameters
from remnant.learner.network_sizes import fit_to_images
from remnant.learner.tuned_methods import default_method
from remnant.memory import MemoryConfig, TransformConfig, parse_budget, settle_quality
from remnant.methods import METHODS, MethodConfig
from remnant.phases import Schedule
from remnant.settings import Settings
from remnant.training.devices import Accelerator
from remnant.training.processes import TrainingConfig

# Chosen: exemplars are whole images, since more is learned from those that fit a budget than from
# patches of all (docs/results.md). For small ones the transform coder takes fewest bytes; it was
# made for them, and its time grows with the pixels (docs/codecs.md).
_LARGEST_TRANSFORMED = 64
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
        suiting = METHODS[method.name].needs_codec or _smallest_codec(parameters.budget, image_size)
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
    return override(fit_to_images(config, parameters.width, device), options)


def _smallest_codec(budget: str, image_size: int) -> dict[str, Any] | str:
    """What takes fewest bytes; as coarse as a budget per class asks for, settled once for all."""
    if image_size > _LARGEST_TRANSFORMED:
        return "webp"
    shape = (image_size, image_size, 3)
    if not parse_budget(budget, math.prod(shape)).per_class:
        return "transform"  # nobody knows how many classes will share it
    memory = MemoryConfig(budget=budget, codec=TransformConfig(quality="auto"))
    return settle_quality(memory, shape, num_classes=1).codec.model_dump()


def _options_as_parameters(
    parameters: LearnerParameters,
) -> tuple[LearnerParameters, dict[str, Any]]:
    """Parameters with codec, width and budget as options set them, and the options that are left.

    Other choices depend on these three.
    """
    options, found = _options(parameters, of_training=False), {}
    for name, key in (("codec", "memory.codec"), ("width", "method.network.width")):
        if getattr(parameters, name) is None and key in options:
            found[name] = options.pop(key)
    if "memory.budget" in options:
        found["budget"] = options.pop("memory.budget")
    return LearnerParameters.parse(parameters.model_dump() | found), options


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
                f"a setting must begin with {', '.join(f'{one}.' for one in _SECTIONS[:-1])} or "
                f"{_SECTIONS[-1]}.; got {key!r}. Leave it out."
            )
        schedule, _, name = key.rpartition(".")
        if schedule in ("method.first", "method.later") and name in ("epochs", "batch_size"):
            raise InputError(f"{key} cannot be an option. Give {name} to the learner itself.")
    return {
        key: value for key, value in options.items() if key.startswith("training.") == of_training
    }


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
        unit = "epoch" if first.epochs == 1 else "epochs"
        parts.append(f"{first.epochs:,} {unit} of batches of {first.batch_size}")
    return f"{config.method.name}: {'; '.join(parts)}"
