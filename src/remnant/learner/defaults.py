"""Sizes, epochs and batches for the images that come: whatever nobody asked for is chosen here.

Settings start from the mini recipe of the method, which holds the best options found, and every
choice is one assignment to it, as `--set` would make. So does what a user asks for, last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
from pydantic import Field, SerializeAsAny, field_validator
from torch import Tensor

from remnant.config import RunConfig, override
from remnant.data.spec import Channels
from remnant.errors import InputError, nearest
from remnant.images import Images
from remnant.memory import MemoryConfig
from remnant.methods import METHODS, MethodConfig
from remnant.phases import Schedule
from remnant.recipes import load_recipe
from remnant.settings import Settings
from remnant.training.devices import Accelerator
from remnant.training.processes import TrainingConfig, acceleration_of
from remnant.views.augment import AugmentConfig

# The best options found for each method at mini scale.
RECIPE = "cifar100-mini-{}"
# Chosen: exemplars are whole images, since more is learned from those that fit a budget than from
# patches of all (docs/results.md). For small ones the transform coder takes fewest bytes; it was
# made for them, and its time grows with the pixels (docs/codecs.md).
_LARGEST_TRANSFORMED = 64
# Chosen: a thin ResNet keeps every pixel up to its last stages, which costs minutes more at 128 px.
_LARGEST_THIN = 64
_PARTIAL_CODECS = ("patches", "coded-patches")

# Chosen: few steps pass between two checkpoints, since an update lasts minutes.
_CHECKPOINT_EVERY_STEPS = 100
# Chosen: images that an update shows. About four minutes on two cores at width 128 (150 to 250
# images/s), and half as many again as the mini recipes, whose classes have 500 images.
_SHOWN = {"cpu": 45_000, "mps": 200_000, "cuda": 1_000_000}
_MIN_EPOCHS = 10  # of a data set so large that it takes longer all the same
_WIDTH = {"cpu": 128, "mps": 128, "cuda": 384}  # mini scale; the paper's
_PATCHES_ACROSS = 8
_SECTIONS = ("method", "memory", "augment", "training")  # of a run's settings, that a learner has
_MEASURED = 4096  # images whose colours make the mean and the deviation
_AT_ONCE = 64  # of them, so that little memory is needed


class LearnerSettings(Settings):
    """What the first update of a learner fixes."""

    image_size: int = Field(ge=8, le=2048)
    mean: Channels  # of the first update's images, per channel, in [0, 1]
    std: Channels
    seed: int = Field(ge=0)
    augment: AugmentConfig
    memory: MemoryConfig | None
    method: SerializeAsAny[MethodConfig]

    @field_validator("method", mode="before")
    @classmethod
    def _choose_method(cls, value: Any) -> Any:
        is_named = isinstance(value, Mapping) and value.get("name") in METHODS
        return METHODS[value["name"]].Config.model_validate(value) if is_named else value

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return self.image_size, self.image_size, 3


# ------------------------------------------------------------------------------ functions of sizes


def choose_image_size(shorter_side: int, device: Accelerator) -> int:
    """32 px for thumbnails, 64 and 128 for what is larger; 224 where a GPU can bear it."""
    if shorter_side <= 40:
        return 32
    if shorter_side <= 96:
        return 64
    return 224 if device == "cuda" and shorter_side > 176 else 128


def choose_patch_size(image_size: int, device: Accelerator) -> int:
    """The divisor that makes nearest to 8 patches across; on a GPU 16 px from 128 px on.

    Raises:
        InputError: The size has no divisor that makes 4 to 16.
    """
    if device == "cuda" and image_size >= 128 and image_size % 16 == 0:
        return 16
    fitting = [side for side in range(1, image_size) if image_size % side == 0]
    fitting = [side for side in fitting if 4 <= image_size // side <= 16]
    if not fitting:
        raise InputError(
            f"image_size must be cut into 4 to 16 patches a side; {image_size} cannot. Take a "
            "multiple of 8."
        )
    return min(fitting, key=lambda side: abs(image_size // side - _PATCHES_ACROSS))


def choose_codec(image_size: int) -> str:
    """What keeps most of whole images of this size in a byte."""
    return "transform" if image_size <= _LARGEST_TRANSFORMED else "webp"


def choose_batch_size(num_images: int, device: Accelerator) -> int:
    """Small batches for few images, so that there are enough steps."""
    if device == "cuda":
        return 128
    return 32 if num_images < 2000 else 64


def choose_epochs(num_images: int, batch_size: int, device: Accelerator) -> int:
    """As many passes over so many images as make an update last minutes; few images get more."""
    num_steps = _SHOWN[device] // batch_size
    steps_per_epoch = -(-num_images // batch_size)
    return max(_MIN_EPOCHS, num_steps // steps_per_epoch)


# --------------------------------------------------------------------------------- the first update


def choose_settings(
    parameters: Mapping[str, Any],
    image_size: int,
    mean: Channels,
    std: Channels,
    device: Accelerator,
) -> LearnerSettings:
    """All settings of a learner whose first images have come.

    Args:
        parameters: Of `Learner`; None stands for "choose".

    Raises:
        InputError: Something asked for cannot be.
    """
    parameters = _with_options(parameters)
    template = _template(parameters["method"])
    chosen = [
        "method.first.steps_from=all",  # few new images do not make small batches
        f"augment.train={json.dumps(parameters['augment'] or 'crop-flip')}",
        f"augment.padding={image_size // 8}",
    ]
    options = _options(parameters, is_training=False)
    given = [*chosen, *_sizes(template, parameters, image_size, device), *options]
    config = override(template, _changes([f"seed={json.dumps(parameters['seed'])}", *given]))
    return LearnerSettings(
        image_size=image_size,
        mean=mean,
        std=std,
        seed=config.seed,
        augment=config.augment,
        memory=config.memory,
        method=config.method,
    )


def _with_options(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters with codec and width as the options have them, if they are to be had there alone.

    Other choices follow from these two.
    """
    found, options = dict(parameters), dict(parameters["options"] or {})
    for name, key in (("codec", "memory.codec"), ("width", "method.network.width")):
        if found[name] is None and key in options:
            found[name] = options.pop(key)
    return found | {"options": options}


def training_of(parameters: Mapping[str, Any]) -> TrainingConfig:
    """Where and how updates are carried out.

    Raises:
        InputError: Something asked for cannot be.
    """
    given = {
        "accelerator": parameters["accelerator"],
        "threads": parameters["threads"],
        "checkpoint_every_steps": _CHECKPOINT_EVERY_STEPS,
    }
    assignments = [f"training.{name}={json.dumps(value)}" for name, value in given.items()]
    options = _options(parameters, is_training=True)
    training = override(
        _template(parameters["method"]), _changes([*assignments, *options])
    ).training
    if training.devices * training.num_nodes > 1:
        raise InputError("a learner works in one process. Leave out training.devices.")
    return training


def device_of(training: TrainingConfig) -> Accelerator:
    return acceleration_of(training).accelerator


def _template(method: Any) -> RunConfig:
    if method not in METHODS:
        raise InputError(
            f"method must be one of {', '.join(METHODS)}; got {method!r}."
            + nearest(str(method), METHODS)
        )
    return load_recipe(RECIPE.format(method))


def _options(parameters: Mapping[str, Any], *, is_training: bool) -> list[str]:
    options = parameters["options"] or {}
    for key in options:
        _check_option(key)
    return [
        f"{key}={json.dumps(value)}"
        for key, value in options.items()
        if key.startswith("training.") == is_training
    ]


def _check_option(key: str) -> None:
    if key.partition(".")[0] not in _SECTIONS:
        raise InputError(f"a learner has settings of {', '.join(_SECTIONS)}; got {key!r}.")
    schedule, _, name = key.rpartition(".")
    if schedule in ("method.first", "method.later") and name in ("epochs", "batch_size"):
        raise InputError(f"{key} is not taken from options. Give {name} to the learner itself.")


def _sizes(
    template: RunConfig, parameters: Mapping[str, Any], image_size: int, device: Accelerator
) -> list[str]:
    """Assignments for network and memory."""
    name, chosen = template.method.name, []
    if hasattr(template.method, "network"):
        width = _WIDTH[device] if parameters["width"] is None else parameters["width"]
        patch_size = choose_patch_size(image_size, device)
        chosen += [f"method.network.patch_size={patch_size}", *_widths(template, width)]
    elif parameters["width"] is not None:
        raise InputError(f"the network of {name} has no width to set. Leave it out.")
    if hasattr(template.method, "backbone") and image_size > _LARGEST_THIN:
        chosen += ["method.backbone.name=resnet18", "method.backbone.stem=large"]
    if template.memory is None:
        return chosen
    codec = _codec(parameters["codec"] or choose_codec(image_size), image_size, device)
    if codec.get("name") not in _PARTIAL_CODECS and hasattr(template.method, "exact_view_ratio"):
        chosen.append("method.exact_view_ratio=0")  # whole images have no stored patches to show
    return [
        *chosen,
        f"memory.budget={json.dumps(parameters['budget'])}",
        f"memory.codec={json.dumps(codec)}",
    ]


def _codec(wanted: str | Mapping[str, Any], image_size: int, device: Accelerator) -> dict[str, Any]:
    settings: dict[str, Any] = {"name": wanted} if isinstance(wanted, str) else dict(wanted)
    if settings.get("name") in _PARTIAL_CODECS and "patch_size" not in settings:
        settings["patch_size"] = choose_patch_size(image_size, device)
    return settings


def _widths(template: RunConfig, width: int) -> list[str]:
    """A network of another width, in proportion: four heads at least, hidden layers four times."""
    if not isinstance(width, int) or width < 16 or width % 16:
        raise InputError(f"width must be a multiple of 16; got {width!r}.")
    network = template.model_dump()["method"]["network"]
    sizes = {
        "width": width,
        "head_width": 32 if width % 32 == 0 and width >= 128 else width // 4,
        "mlp_width": 4 * width,
        "fusion_mlp_width": 4 * width,
    }
    return [f"method.network.{name}={size}" for name, size in sizes.items() if name in network]


def measure_colours(images: Images) -> tuple[Channels, Channels]:
    """Mean and deviation of each channel over a sample spread evenly over the images."""
    positions = torch.arange(0, len(images), -(-len(images) // _MEASURED))
    counts = torch.zeros(3, 256, dtype=torch.float64)  # how often each channel has each level
    for some in positions.split(_AT_ONCE):
        pixels = images.read(some).flatten(0, 2)
        counts += torch.stack([one.bincount(minlength=256) for one in pixels.int().unbind(dim=1)])
    shares = counts / counts.sum(dim=1, keepdim=True)
    levels = torch.arange(256, dtype=torch.float64) / 255
    mean = shares @ levels
    variance = (shares * (levels - mean[:, None]) ** 2).sum(dim=1)
    # Images of one colour have no deviation, and nothing can be divided by that.
    return _channels(mean), _channels(variance.sqrt().clamp(min=1 / 255))


def _channels(values: Tensor) -> Channels:
    red, green, blue = (round(value, 4) for value in values.tolist())
    return red, green, blue


# ------------------------------------------------------------------------------------- every update


def schedule_update(
    method: MethodConfig, parameters: Mapping[str, Any], num_images: int, device: Accelerator
) -> MethodConfig:
    """The method's config with the schedule of one update that passes over so many images.

    Raises:
        InputError: What a user asked for cannot be.
    """
    batch_size, epochs = parameters["batch_size"], parameters["epochs"]
    if batch_size is None:
        batch_size = choose_batch_size(num_images, device)
    if epochs is None:
        is_possible = isinstance(batch_size, int) and batch_size > 0  # else told below
        epochs = choose_epochs(num_images, batch_size, device) if is_possible else 1
    wanted = {"epochs": epochs, "batch_size": batch_size}
    schedules = {"first": method.first, "later": method.later}
    return method.model_copy(
        update={
            name: _stretched(schedule, wanted, parameters["learning_rate"])
            for name, schedule in schedules.items()
            if schedule is not None
        }
    )


def _stretched(schedule: Schedule, wanted: dict[str, Any], lr: float | None) -> Schedule:
    """A schedule over other epochs, its warm-up and milestones at the same shares of them."""
    values = schedule.model_dump() | wanted
    optimizer = values["optimizer"]
    if isinstance(values["epochs"], int):
        factor = values["epochs"] / schedule.epochs
        optimizer["warmup_epochs"] *= factor
        optimizer["milestones"] = tuple(one * factor for one in optimizer["milestones"])
    if lr is not None:
        optimizer["lr"] = lr
    return Schedule.parse(values)


def describe(settings: LearnerSettings) -> str:
    """What was chosen, in a line."""
    values = settings.method.model_dump()
    parts = [f"images of {settings.image_size} px"]
    if "network" in values:
        network = values["network"]
        parts.append(f"patches of {network['patch_size']} px, width {network['width']}")
    if settings.memory is not None:
        parts.append(f"memory of {settings.memory.budget} as {settings.memory.codec.name}")
    first = settings.method.first
    parts.append(f"{first.epochs:,} epochs of batches of {first.batch_size}")
    return f"{settings.method.name}: {'; '.join(parts)}"


def _changes(assignments: list[str]) -> dict[str, Any]:
    pairs = (one.partition("=") for one in assignments)
    return {
        key: json.loads(value) if value[:1] in '"{[-0123456789tfn' else value
        for key, _, value in pairs
    }
