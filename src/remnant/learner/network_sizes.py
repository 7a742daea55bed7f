"""Sizes of images, patches and networks that suit the images of a learner and its device."""

from __future__ import annotations

from typing import Any

from remnant.errors import InputError
from remnant.learner.learner_state import LearnerConfig
from remnant.methods.backbones import BackboneConfig
from remnant.methods.bimae import BiMAEConfig
from remnant.training.devices import Accelerator

# Chosen: a thin ResNet keeps every pixel up to its last stages, which costs minutes more at 128 px.
_LARGEST_THIN = 64
_WIDTH = {"cpu": 128, "mps": 128, "cuda": 384}  # mini scale; the paper's
_CONV_WIDTH = {"cpu": 192, "mps": 192, "cuda": 384}
_PATCHES_ACROSS = 8


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


def fit_to_images(config: LearnerConfig, width: int | None, device: Accelerator) -> LearnerConfig:
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
