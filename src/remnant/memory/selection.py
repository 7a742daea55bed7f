"""Which images a class keeps, as ranks: the best first, so that shrinking keeps a prefix.

[icarl] Rebuffi et al., CVPR 2017.
Axes: N images of one class, D features.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from remnant.errors import InputError
from remnant.metrics import unit_rows

MAX_REPEATING_STEPS = 1000  # where the released [icarl] stops
TIE_DECIMALS = 9  # scores this close are equal, so that rounding decides nothing


def herding(features: Tensor, count: int | None = None) -> Tensor:
    """The first `count` images, int64, whose mean stays closest to the class mean at every length.

    A pick may fall on a ranked image again: it then moves the target and gets no new rank, so
    the ranks differ from those of picking without replacement once that has happened.
    Departs from [icarl]: when its steps run out, the rest is ranked without replacement, because
    features that coincide would otherwise leave the memory empty.

    Args:
        features: Of all N images of a class, [N, D]; their lengths do not matter.
        count: All N images if None; never more than N.
    """
    units = _unit_features(features)
    pull = units @ units.mean(axis=0) if len(units) else np.zeros(0)  # <mu, d_n>, [N]
    scores = pull.copy()  # <w, d_n> with w = mu, [N]
    is_ranked = np.zeros(len(units), dtype=bool)
    ranks: list[int] = []
    num_steps = 0
    while len(ranks) < _clamp(count, len(units)):
        rivals = scores.round(TIE_DECIMALS)
        if num_steps >= MAX_REPEATING_STEPS:
            rivals[is_ranked] = -np.inf
        best = int(rivals.argmax())  # the first of equals
        if not is_ranked[best]:
            ranks.append(best)
            is_ranked[best] = True
        scores += pull - units @ units[best]  # w <- w + mu - d_best
        num_steps += 1
    return torch.tensor(ranks, dtype=torch.int64)


def random_ranks(num_available: int, count: int | None, generator: torch.Generator) -> Tensor:
    """`count` different images (all if None, never more than there are) in random order."""
    return torch.randperm(num_available, generator=generator)[: _clamp(count, num_available)]


def select(
    selection: Literal["herding", "random"],
    features: Tensor,
    count: int | None,
    generator: torch.Generator,
) -> Tensor:
    """Ranks of the images of one class with `features` [N, D]; `count` is what fits, None: all."""
    if selection == "herding":
        return herding(features, count)
    return random_ranks(len(features), count, generator)


def _unit_features(features: Tensor) -> np.ndarray:
    rows = features.detach().to(device="cpu", dtype=torch.float64).numpy()
    if not np.isfinite(rows).all():
        raise InputError(
            "features for herding must be finite; some are not. Lower the learning rate, or set "
            'memory.selection to "random".'
        )
    return unit_rows(rows)


def _clamp(count: int | None, num_available: int) -> int:
    return num_available if count is None else min(count, num_available)
