"""The features of every image learned from, one byte per number, in place of the images.

Axes: N images, D features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from remnant.archives import Arrays, archive_digest
from remnant.errors import InputError

_LARGEST = 127  # number in a code; a few features of some images are larger
_STEP = 1 / 16  # of a stored number; the mean square of a row is about 1 before it is rounded


def to_directions(features: Tensor) -> Tensor:
    """Features [N, D] of any length -> float [N, D] of one length, in steps of a code.

    No number is larger than one of a code, or else what was learned of codes would not hold for
    images.
    """
    features = features.float()
    length = features.norm(dim=1, keepdim=True).clamp(min=1e-12)
    directions = features / length * (features.shape[1] ** 0.5 / _STEP)
    return directions.clamp(-_LARGEST, _LARGEST)


def to_codes(features: Tensor) -> Tensor:
    """Features [N, D] of any length -> int8 [N, D]: their direction, rounded."""
    return to_directions(features).round().to(torch.int8)


class FeatureBank:
    """Codes of the images of each class, each code once, in an order that depends on nothing else.

    Implements `remnant.memory.keeps.Keeps`, so that its bytes are counted and saved.
    """

    name = "features"

    def __init__(self, width: int) -> None:
        self._width = width
        self._codes: list[
            np.ndarray
        ] = []  # int8 [N, D] of each class, rows in order of their bytes

    @property
    def num_classes(self) -> int:
        return len(self._codes)

    @property
    def nbytes(self) -> int:
        return sum(codes.nbytes for codes in self._codes)

    def grow(self, num_new_classes: int) -> None:
        self._codes += [np.empty((0, self._width), np.int8) for _ in range(num_new_classes)]

    def add(self, label: int, codes: Tensor) -> None:
        """Codes int8 [N, D] of images of a class; those that it has already change nothing."""
        self._codes[label] = np.unique(np.concatenate([self._codes[label], codes.numpy()]), axis=0)

    def knows(self, label: int, codes: Tensor) -> Tensor:
        """Bool [N]: whether a class has these codes already."""
        known = {row.tobytes() for row in self._codes[label]}
        return torch.tensor([row.tobytes() in known for row in codes.numpy()], dtype=torch.bool)

    def remove(self, label: int) -> None:
        del self._codes[label]

    def of_class(self, label: int) -> np.ndarray:
        """int8 [N, D], rows in order of their bytes."""
        return self._codes[label]

    # ------------------------------------------------------------------------------------- `Keeps`

    def ledger(self) -> dict[str, Any]:
        return {"rows": sum(map(len, self._codes)), "bytes_per_row": self._width}

    def state_arrays(self) -> tuple[dict[str, np.ndarray], Any]:
        rows = np.concatenate([np.empty((0, self._width), np.int8), *self._codes])
        return {"rows": rows}, {"counts": [len(codes) for codes in self._codes]}

    def load_arrays(self, arrays: Arrays, metadata: Any, source: str) -> None:
        rows = arrays.get("rows")
        counts = metadata.get("counts") if isinstance(metadata, dict) else None
        is_fitting = (
            rows is not None
            and rows.dtype == np.int8
            and rows.ndim == 2
            and rows.shape[1] == self._width
            and isinstance(counts, list)
            and len(counts) == self.num_classes
            and all(type(count) is int and count >= 0 for count in counts)
            and sum(counts) == len(rows)
        )
        if not is_fitting or rows is None or counts is None:
            raise InputError(f"{source} holds features that do not fit its classes.")
        ends = np.cumsum(counts)
        self._codes = [codes.copy() for codes in np.split(rows, ends[:-1])] if counts else []

    def digest(self) -> str:
        arrays, metadata = self.state_arrays()
        return archive_digest(metadata, arrays)
