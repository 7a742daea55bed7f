"""What only some methods can do; others ask with `isinstance`."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from remnant.images import ImageSet
from remnant.methods.base import Method
from remnant.phases import Batch, Reader


@runtime_checkable
class Recognises(Protocol):
    """A method that can say of an image that it is of none of its classes."""

    def recognise(self, views: Tensor) -> tuple[Tensor, Tensor]:
        """Scores [B, K], and bool [B]: whether an image is like those that were taught."""
        ...


@runtime_checkable
class Draws(Protocol):
    """A method whose network draws images, and so completes exemplars that are known in part."""

    @property
    def working_bytes(self) -> int:
        """Bytes of the completed exemplars during a task, beside the budget."""
        ...

    def complete_memory(self, reader: Reader) -> ImageSet | None:
        """The memory with every exemplar whole; None when it is empty."""
        ...

    def redraw(self, images: Tensor, reader: Reader) -> dict[str, Tensor] | None:
        """How images uint8 [n, H, W, C] look to the network; None if it does not learn to draw.

        "visible", "both", "main", "detail": what is seen of an image, and its reconstruction by
        both branches and by each alone. "coarse", "fine", "difference", "high": one example of
        what the detail branch learns. All uint8 [n, H, W, C]; a method may leave some out.
        """
        ...


@runtime_checkable
class TellsRows(Protocol):
    """A method whose loss does more with some rows of a batch than with others.

    The FLOPs of a run are counted in a few steps and computed for the others, from their rows. That
    rows differ by whether they are replayed or known in part is seen without this.
    """

    def row_kinds(self, batch: Batch) -> Tensor:
        """Small whole numbers [B], below 8; rows with the same number take the same."""
        ...


@runtime_checkable
class Decides(Protocol):
    """A method that decides by itself, from what it has seen, what others are told."""

    def decisions(self) -> list[dict[str, Any]]:
        """What was decided so far, for result.json: see `Decision` in `runs.run_folder`."""
        ...


def replayed_memory(method: Method[Any], reader: Reader) -> ImageSet | None:
    """The memory as it is replayed: completed by a method that draws."""
    return method.complete_memory(reader) if isinstance(method, Draws) else method.replay()
