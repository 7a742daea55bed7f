"""The nearest-mean-of-exemplars classifier.

[icarl] Rebuffi et al., CVPR 2017.

Axes: N exemplars, B images, D features, K classes seen so far.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remnant.images import ImageSet
from remnant.memory.keeps import KeptTensors
from remnant.methods.base import Method
from remnant.models.precision import in_float32
from remnant.phases import Reader


class NearestMean(nn.Module):
    """One unit vector per class, the mean of its exemplars; the nearest one names an image.

    `grow` makes room, so that a checkpoint can be loaded without data; `fill` is for the end of a
    task, when the memory holds all classes seen and the network has its final weights.
    """

    means: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("means", torch.zeros(0, width))  # [K, D]

    def grow(self, num_new_classes: int) -> None:
        rows = self.means.new_zeros(num_new_classes, self.means.shape[1])
        self.means = torch.cat([self.means, rows])

    def forward(self, features: Tensor) -> Tensor:
        """[B, D] -> scores [B, K]: the largest belongs to the nearest mean, as all are units."""
        with in_float32(features) as exact:
            return F.normalize(exact.float(), dim=1) @ self.means.T

    def fill(
        self,
        extract: Callable[[Tensor], Tensor],
        exemplars: ImageSet,
        reader: Reader,
        *,
        is_mirrored: bool = True,
    ) -> None:
        """Compute the means of all classes.

        Args:
            extract: Views [B, C, H, W] -> features [B, D].
            exemplars: Of every class seen, whole.
            reader: Reads them.
            is_mirrored: Mirror images count as much as the exemplars [icarl].
        """
        sums = torch.zeros(self.means.shape)
        for mirrored in (False, True)[: 1 + is_mirrored]:
            features = reader.apply(extract, exemplars, mirrored=mirrored)  # [N, D]
            sums.index_add_(0, exemplars.labels, F.normalize(features, dim=1))
        self.means.copy_(F.normalize(sums, dim=1))  # lengths, and so counts, do not matter


def fill_from_memory(
    means: NearestMean, method: Method[Any], reader: Reader, *, is_mirrored: bool
) -> None:
    """Compute the means of the features that the method gives its exemplars."""
    exemplars = method.replay()
    assert exemplars is not None, "the memory holds the classes seen"
    means.fill(method.features, exemplars, reader, is_mirrored=is_mirrored)


def unused_head(
    prediction: Literal["scores", "nearest-mean"], classifier: nn.Module, means: NearestMean
) -> KeptTensors:
    """Of two heads, the one that does not predict: kept for losses, or to compare."""
    if prediction == "scores":
        return KeptTensors.of("class_means", means)
    return KeptTensors.of("classifier", classifier)
