"""Exemplars that are known in part: what the codec of the memory and a network must agree on."""

from __future__ import annotations

from remnant.errors import InputError
from remnant.memory import Memory, PartialCodec, partial_choices


def require_patches(memory: Memory | None, patch_size: int, settings: str) -> PartialCodec:
    """The codec of a memory that keeps patches, of the size that the network sees.

    Args:
        settings: Those that need it, with a verb: "method.masked_input is".

    Raises:
        InputError: The memory keeps whole images, or patches of another size.
    """
    codec = None if memory is None else memory.codec
    if not isinstance(codec, PartialCodec):
        raise InputError(
            f"{settings} about exemplars that are known in part. Set {partial_choices()}, or leave "
            "the default."
        )
    if codec.config.patch_size != patch_size:
        raise InputError(
            "memory.codec.patch_size and method.network.patch_size must be equal; got "
            f"{codec.config.patch_size} and {patch_size}."
        )
    return codec
