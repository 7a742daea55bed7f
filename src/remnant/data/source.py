"""What a loader hands over: class names and two splits, neither of them opened yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from remnant.errors import InputError
from remnant.images import ImageSet

Progress = Callable[[int, int | None], None]  # how much is done, and of how much where known


@dataclass(frozen=True)
class Source:
    """A data set found on disk; a split is read when it is called for, never before."""

    class_names: tuple[str, ...]
    train: Callable[[], ImageSet]
    test: Callable[[], ImageSet]


def missing(name: str, path: Path, *, can_download: bool = True) -> InputError:
    """The error for files that are not where the data set keeps them."""
    get = f"Run `remnant data get {name}`, or put" if can_download else "Put"
    return InputError(
        f"{name} is expected at {path}, which does not exist. {get} the files there, or point "
        "--data-root or $REMNANT_DATA at the folder that holds them."
    )
