"""The two phases of methods with a cosine classifier: learn new classes, then balance all of them.

[ucir] Hou et al., CVPR 2019. [podnet] Douillard et al., ECCV 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import nn

from remnant.images import Task
from remnant.methods.base import Method
from remnant.models.cosine import SplitClassifier
from remnant.phases import Batch, Phase, Reader, Schedule, Terms


def train_and_tune(
    method: Method,
    task: Task,
    reader: Reader,
    network: nn.Module,
    classifier: SplitClassifier,
    tuning: Schedule | None,
    tuning_loss: Callable[[Batch], Terms],
) -> Iterator[Phase]:
    """Train all but the rows of old classes; then, in later tasks, tune all rows on the memory.

    The memory is filled in between, because tuning needs the new classes in it: `end_task` must not
    fill it again. A run that is resumed while tuning has the memory of the task's start, so
    filling is repeated with the same network and gives the same.
    """
    yield method.phase(
        "train",
        task.train,
        method.config.schedule(task),
        replay=method.replay(),
        parameters=[*network.parameters(), classifier.new, classifier.scale],
    )
    method.remember(task, reader)
    exemplars = method.replay()
    if tuning is not None and exemplars is not None and task.index > 0:
        rows = [classifier.old, classifier.new]
        yield method.phase("tune", exemplars, tuning, parameters=rows, loss=tuning_loss)
