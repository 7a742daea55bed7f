"""Scores without the advantage of classes that were learned from more images.

[la] Menon et al., ICLR 2021: post-hoc logit adjustment.

Balanced batches show an old class as often as a new one, but with the same few exemplars over and
over. The network soon memorises these, and still assigns unseen images to the classes of which it
has seen many.

Departs from [la]: there every image is drawn equally often, so that the number of images is the
prior. Here its log is subtracted under balanced batches too, where the sampling prior is flat: an
empirical rule (docs/methods/bimae.md).
"""

from __future__ import annotations

import torch

from remnant.errors import InputError
from remnant.images import ImageSet, Task
from remnant.methods.base import MethodConfig
from remnant.models.classifier import LinearClassifier, adjust_biases, restore_biases


class LogitAdjustment:
    """After a later task, a classifier's scores lose the log of the images of their classes.

    Between tasks the classifier is adjusted; while it trains it is not.

    Args:
        weight: [la] tau; 0: nothing is ever adjusted.

    Raises:
        InputError: The loss is corrected by a prior already.
    """

    def __init__(self, classifier: LinearClassifier, weight: float, config: MethodConfig) -> None:
        self._classifier, self._weight = classifier, weight
        if weight == 0:
            return
        if config.corrects_prior:
            raise InputError(
                "logit_adjustment takes from the scores what corrects_prior keeps out of them "
                "already. Leave one of them out."
            )
        classifier.make_adjustable()

    def undo(self) -> None:
        """Before training: scores as the last training left them."""
        if self._weight > 0:
            restore_biases(self._classifier)

    def apply(self, task: Task, replay: ImageSet | None) -> None:
        """After training on `task` and `replay`; without replay no class is at a disadvantage."""
        if self._weight > 0 and replay is not None:
            labels = torch.cat([task.train.labels, replay.labels])
            counts = torch.bincount(labels, minlength=self._classifier.num_classes)
            adjust_biases(self._classifier, counts, self._weight)
