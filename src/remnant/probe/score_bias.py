"""How far the scores of the newest classes stand above those of the old ones.

A class that was learned from many images wins over one that was learned from few, even where both
were drawn equally often. Taking a constant from the scores of the newest classes shows how much
accuracy that costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch
from torch import Tensor


@dataclass(frozen=True)
class ScoreBias:
    """The constant that, with hindsight, is best taken from the scores of the newest classes."""

    shift: float
    accuracy: float  # percent, with it; each class counted alike
    # Of the images that a new class was learned from to those of an old one; None: no exemplars.
    log_ratio: float | None

    def reading(self, accuracy: float) -> str:
        """In one sentence, given the accuracy without the shift."""
        told = (
            f"With {self.shift:.1f} taken from the scores of the newest classes, "
            f"{self.accuracy:.1f} % would be right instead of {accuracy:.1f} %"
        )
        if self.log_ratio is None:
            return f"{told}."
        return (
            f"{told}; the log of their images over those of an old class is {self.log_ratio:.1f}."
        )


def score_bias(
    scores: Tensor, labels: Tensor, num_old: int, num_images: list[int] | None
) -> ScoreBias:
    """The best constant for scores [N, K] of images with `labels` [N]; the first classes are old.

    Args:
        num_images: That each class was learned from last; None: not known.
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
    edges = torch.cat([margins[:1] - 1, margins, margins[-1:] + 1])
    shifts = (edges[1:] + edges[:-1]) / 2
    best = int(right.argmax())
    ratio = None
    if num_images is not None:
        counts = [log(max(1, count)) for count in num_images]
        news = counts[num_old:]
        ratio = sum(news) / len(news) - sum(counts[:num_old]) / num_old
    return ScoreBias(float(shifts[best]), float(right[best]), ratio)
