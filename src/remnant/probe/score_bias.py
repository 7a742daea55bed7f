"""How far the scores of the newest classes stand above those of the old ones.

A class that was learned from many images wins over one that was learned from few, even where both
were drawn equally often. Subtracting a constant from the scores of the newest classes shows how
much accuracy that costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

_LEVEL = 1e-9  # percent; accuracies that are closer than that are equal


@dataclass(frozen=True)
class ScoreBias:
    """The constant that, with hindsight, is best subtracted from the newest classes' scores."""

    shift: float
    accuracy: float  # percent, with it; each class counted alike
    unshifted: float  # percent, without it
    # Of the images per new class to the exemplars per old class; None: not known.
    log_ratio: float | None

    @property
    def reading(self) -> str:
        """In one sentence."""
        sentence = (
            f"Subtracting {self.shift:.1f} from the scores of the newest classes would give "
            f"{self.accuracy:.1f} % accuracy instead of {self.unshifted:.1f} %"
        )
        if self.log_ratio is None:
            return f"{sentence}."
        return (
            f"{sentence}; the log of the ratio of images per new class to exemplars per old class "
            f"is {self.log_ratio:.1f}."
        )


def score_bias(
    scores: Tensor, labels: Tensor, num_old: int, num_images: list[int] | None
) -> ScoreBias:
    """The best constant for scores [N, K] of images with `labels` [N]; the first classes are old.

    Of several equally good constants it is the one nearest to 0.

    Args:
        num_images: How many images each class was learned from in the last task; None: not known.
    """
    old, new = scores[:, :num_old].max(dim=1), scores[:, num_old:].max(dim=1)
    margins, order = (new.values - old.values).double().sort()
    shares = torch.bincount(labels, minlength=scores.shape[1]).double()
    weights = 100 / (shares[labels] * (shares > 0).sum())  # of each image
    right_old = (weights * (old.indices == labels))[order]
    right_new = (weights * (new.indices + num_old == labels))[order]
    # Entry i: the i images of smallest margin are given an old class, the others a new one.
    none = torch.zeros(1, dtype=torch.double)
    right = torch.cat([none, right_old.cumsum(0)])
    right += torch.cat([right_new.flip(0).cumsum(0).flip(0), none])
    right[1:-1][margins.diff() == 0] = -1  # no constant parts equal margins
    edges = torch.cat([margins[:1] - 1, margins, margins[-1:] + 1])
    # Between two margins any constant will do; 0, if it lies there.
    lows, highs = edges[:-1], edges[1:]
    shifts = torch.where((lows < 0) & (highs > 0), 0.0, (lows + highs) / 2)
    far = shifts.abs().where(right >= right.max() - _LEVEL, torch.inf)
    best, plain = int(far.argmin()), int((margins <= 0).sum())
    ratio = _log_ratio(num_images, num_old)
    return ScoreBias(float(shifts[best]), float(right[best]), float(right[plain]), ratio)


def _log_ratio(num_images: list[int] | None, num_old: int) -> float | None:
    if num_images is None:
        return None
    logs = [log(max(1, count)) for count in num_images]
    new, old = logs[num_old:], logs[:num_old]
    return sum(new) / len(new) - sum(old) / len(old)
