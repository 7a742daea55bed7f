"""Scores without the advantage of classes that were learned from more images.

[la] Menon et al., ICLR 2021: post-hoc logit adjustment.

Balanced batches show an old class as often as a new one, but by a few exemplars over and over. The
network soon knows these by heart, and images that it has not seen still go to the classes of which
it has seen many.

Departs from [la]: images are counted, not draws, since all classes are drawn equally often.
"""

from __future__ import annotations

import torch

from remnant.images import ImageSet, Task
from remnant.models.classifier import LinearClassifier, adjust_biases


def adjust_scores(
    classifier: LinearClassifier, task: Task, replay: ImageSet | None, weight: float
) -> None:
    """After training on `task` and `replay`: lower the scores of classes with many images.

    The next task starts from the adjusted biases, and balanced batches learn them again.
    """
    if weight == 0 or replay is None:
        return
    labels = torch.cat([task.train.labels, replay.labels])
    adjust_biases(classifier, torch.bincount(labels, minlength=classifier.num_classes), weight)
