"""How far probabilities can be believed: of images given 80 %, are 80 % right?

Axes: N images, K classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

_EDGES = (0.0, 0.5, 0.7, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class Reliability:
    """Images by the probability of their answer: from, to, images, mean probability, right."""

    rows: list[tuple[float, float, int, float, float]]  # all but the number of images from 0 to 1

    @property
    def error(self) -> float:
        """Expected calibration error: the mean distance of probability and accuracy, 0 to 1."""
        total = sum(count for _, _, count, _, _ in self.rows)
        return sum(count * abs(said - right) for _, _, count, said, right in self.rows) / total


def measure_reliability(shares: np.ndarray, labels: np.ndarray) -> Reliability:
    """Reliability of probabilities [N, K] and true labels int [N], N above 0."""
    best = shares.argmax(axis=1)
    said, is_right = shares[np.arange(len(best)), best], best == labels
    rows = []
    for low, high in pairwise(_EDGES):
        is_here = (said >= low) & ((said < high) | (high == 1.0))
        if count := int(is_here.sum()):
            here = float(said[is_here].mean()), float(is_right[is_here].mean())
            rows.append((low, high, count, *here))
    return Reliability(rows)
