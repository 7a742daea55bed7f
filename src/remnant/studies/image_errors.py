"""How far the choice of test images alone can move the numbers of one run: standard errors.

Errors are in percent, as the numbers are. Tasks have different test images, so their errors are
independent. One task has the same images after every task, so its errors may move together: they
are added up, which is the worst case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from remnant.runs.run_folder import RunResult


def share_error(percent: float, num_images: int) -> float:
    """Standard error of a share of `num_images`; 0 and 1 are taken to be uncertain by one image."""
    share = min(max(percent / 100, 0.0), 1.0)
    return 100 * math.sqrt(max(share * (1 - share), 1 / num_images) / num_images)


def mean_error(accuracies: Sequence[float], images: Sequence[int]) -> float | None:
    """Standard error of the mean of accuracies after each task, over all test images so far."""
    if len(accuracies) != len(images):
        return None
    seen = accumulate(images)
    errors = [share_error(one, count) for one, count in zip(accuracies, seen, strict=True)]
    return sum(errors) / len(errors)


def newest_error(result: RunResult, images: Sequence[int]) -> float | None:
    matrix = result.accuracy_matrix
    if len(matrix) != len(images) or len(matrix) < 2:
        return None
    diagonal = [row[-1] for row in matrix]
    return _over_tasks(
        [share_error(one, count) for one, count in zip(diagonal[1:], images[1:], strict=True)]
    )


def forgetting_error(result: RunResult, images: Sequence[int]) -> float | None:
    matrix = result.accuracy_matrix
    if len(matrix) != len(images) or len(matrix) < 2:
        return None
    *earlier, final = matrix
    errors = []
    for task in range(len(earlier)):
        best = max(row[task] for row in earlier[task:])
        errors.append(sum(share_error(one, images[task]) for one in (best, final[task])))
    return _over_tasks(errors)


def _over_tasks(errors: Sequence[float]) -> float:
    """Standard error of the mean over tasks, whose images differ."""
    return math.sqrt(sum(error**2 for error in errors)) / len(errors)
