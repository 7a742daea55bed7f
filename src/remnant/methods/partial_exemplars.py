"""Images seen in part: what codecs, networks and methods must agree on."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from remnant.errors import InputError
from remnant.images import ImageSet
from remnant.memory import Memory, PartialCodec, partial_choices
from remnant.phases import Batch, Reader


@runtime_checkable
class SeesParts(Protocol):
    """A method whose network takes an image by some of its patches."""

    def shown_patches(self, batch: Batch) -> Tensor | None:
        """The patches of a batch that the network is given, bool [B, GH, GW]; None: all."""
        ...

    def predict_parts(self, views: Tensor, is_known: Tensor) -> Tensor:
        """Scores [B, K] of views seen by their known patches alone, bool [B, GH, GW].

        As many patches are known of each.
        """
        ...


@runtime_checkable
class Completes(Protocol):
    """A method that makes images whole of which some patches are known."""

    @property
    def completes(self) -> bool:
        """Whether its settings let it."""
        ...

    def complete(self, stored: ImageSet, reader: Reader) -> ImageSet:
        """The images with what is not known drawn by the network; known pixels stay unchanged."""
        ...


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
