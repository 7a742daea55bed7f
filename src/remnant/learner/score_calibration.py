"""Probabilities that can be believed, and "none of these", for networks that were trained.

Both are fitted on new images that were held back from training. A method that holds images out by
itself, such as `ranpac`, does the same on its own.

Axes: N images, K classes.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field
from torch import Tensor

from remnant.methods.ridge import choose_temperature
from remnant.settings import Settings

_UNSURE = 0.05  # of the held-back images
_LEAST_IMAGES = 20  # fewer say little


class Calibration(Settings):
    """What a network's scores are compared with and divided by."""

    temperature: float = Field(gt=0, allow_inf_nan=False)  # scores are divided by it
    least_score: float = Field(allow_inf_nan=False)  # that the best class of 19 in 20 images has

    def knows(self, scores: Tensor) -> Tensor:
        """Bool [N]: whether images with these scores [N, K] are like those that were taught."""
        return scores.amax(dim=1) >= self.least_score


def calibrate(scores: Tensor, labels: Tensor) -> Calibration | None:
    """Fit to scores [N, K] of images held back; None where they are too few, or of one class."""
    if len(labels) < _LEAST_IMAGES or scores.shape[1] < 2:
        return None
    values = scores.double().numpy()
    best = float(np.quantile(values.max(axis=1), _UNSURE))
    return Calibration(temperature=choose_temperature(values, labels.numpy()), least_score=best)
