"""Numbers of a run, computed from saved predictions, features and reconstructions.

`predictions` holds one pair per task: after that task, the five best labels of every test image
seen so far [N, 5], best first and padded with -1 while fewer than five classes are known, and the
true labels [N]. R[i][j], row i of an accuracy matrix, is the accuracy on the test images of task j
after task i, over all classes seen. Accuracies are percent; differences are percent points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Predictions = Sequence[tuple[np.ndarray, np.ndarray]]
Matrix = Sequence[Sequence[float]]  # row i has i + 1 entries
# Chosen: in a mean of PSNR, an image without error counts with 100 dB, well above the 83 dB of one
# wrong value in a small image, so that the mean stays finite.
NO_ERROR_PSNR = 100.0


# ------------------------------------------------------------------------------------- accuracies


def accuracy_matrix(predictions: Predictions, task_of_label: Sequence[int]) -> list[list[float]]:
    """R[i][j] for j <= i; `task_of_label` gives the task that teaches each label.

    Raises:
        ValueError: A task that was seen has no test image.
    """
    owner = np.asarray(task_of_label, dtype=np.int64)
    matrix = []
    for index, (top5, labels) in enumerate(predictions):
        tasks = owner[labels]
        assert tasks.max(initial=0) <= index, "a test image of a later task"
        totals = np.bincount(tasks, minlength=index + 1)
        hits = np.bincount(tasks[top5[:, 0] == labels], minlength=index + 1)
        if not totals.all():
            raise ValueError(f"task {int(totals.argmin())} has no test image to be scored on")
        matrix.append((100.0 * hits / totals).tolist())
    return matrix


def overall_accuracies(predictions: Predictions) -> list[float]:
    """After each task, the accuracy over all test images of the classes seen so far."""
    return [_percent(top5[:, 0] == labels) for top5, labels in predictions]


def top5_accuracies(predictions: Predictions) -> list[float]:
    """As `overall_accuracies`, where the label may be any of the five best."""
    return [_percent((top5 == labels[:, None]).any(axis=1)) for top5, labels in predictions]


def average(accuracies: Sequence[float]) -> float:
    """Average incremental accuracy: over all tasks, the first one included."""
    return float(np.mean(accuracies))


def last(accuracies: Sequence[float]) -> float:
    return accuracies[-1]


def newest(matrix: Matrix) -> float | None:
    """Mean accuracy on a task right after it was learned, the first task apart; None without one.

    A method that never lets new classes in forgets nothing: read forgetting beside this.
    """
    diagonal = [row[-1] for row in matrix[1:]]
    return average(diagonal) if diagonal else None


def forgetting_per_task(matrix: Matrix) -> list[float]:
    """For each task but the last, how far its accuracy fell below its best before the last task.

    The best leaves out the last task (continuum's definition), so an entry can be negative.
    """
    *earlier, final = matrix
    return [max(row[task] for row in earlier[task:]) - final[task] for task in range(len(earlier))]


def forgetting(matrix: Matrix) -> float:
    """Mean of `forgetting_per_task`; 0 for a single task."""
    return _mean_or_zero(forgetting_per_task(matrix))


def backward_transfer(matrix: Matrix) -> float:
    """Mean of R[i][j] - R[j][j] over all i > j; 0 for a single task."""
    return _mean_or_zero(
        [
            accuracy - matrix[task][task]
            for index, row in enumerate(matrix)
            for task, accuracy in enumerate(row[:index])
        ]
    )


def summary(predictions: Predictions, task_of_label: Sequence[int]) -> dict[str, Any]:
    """Everything that predictions alone can tell, under the names used in `result.json`."""
    matrix = accuracy_matrix(predictions, task_of_label)
    accuracies, top5 = overall_accuracies(predictions), top5_accuracies(predictions)
    return {
        "accuracy_matrix": matrix,
        "accuracies": accuracies,
        "average_accuracy": average(accuracies),
        "last_accuracy": last(accuracies),
        "newest_accuracy": newest(matrix),
        "top5_accuracies": top5,
        "top5_average": average(top5),
        "top5_last": last(top5),
        "forgetting": forgetting(matrix),
        "forgetting_per_task": forgetting_per_task(matrix),
        "backward_transfer": backward_transfer(matrix),
    }


# --------------------------------------------------------------------------- feature-space density


def density(features: np.ndarray, labels: np.ndarray) -> dict[str, float | None]:
    """How close features [N, D] of one class lie together, compared with those of others.

    Returns:
        "intra", mean cosine similarity of two samples of one class (averaged over classes),
        "inter", that of two samples of different classes, and "pi" = intra / inter, higher is
        denser. Signed features can have an "inter" near 0, where "pi" says little: compare both
        terms. What needs more samples or classes than there are is None.
    """
    directions = unit_rows(features)
    groups = [directions[labels == label] for label in np.unique(labels)]
    counts = np.array([len(group) for group in groups])
    sums = np.array([group.sum(axis=0) for group in groups])  # [K, D]
    squares = (sums**2).sum(axis=1)
    selves = np.array([(group**2).sum() for group in groups])  # each sample with itself
    pairs = counts * (counts - 1)
    is_pair = pairs > 0
    intra = _mean_or_none((squares - selves)[is_pair] / pairs[is_pair])
    inter = _ratio(
        (sums.sum(axis=0) ** 2).sum() - squares.sum(), counts.sum() ** 2 - counts @ counts
    )
    return {"pi": _ratio(intra, inter), "intra": intra, "inter": inter}


def pi_roth(features: np.ndarray, labels: np.ndarray) -> float | None:
    """The density of Roth et al. (2020), by distances: within classes over between class centres.

    Features are scaled to unit length, the centre of a class is their plain mean, and lower is
    denser, the reverse of `density`. None when no class has two samples or there is one class.
    """
    directions = unit_rows(features)
    groups = [directions[labels == label] for label in np.unique(labels)]
    within = [_mean_distance(group) for group in groups if len(group) > 1]
    if not within or len(groups) < 2:
        return None
    return _ratio(
        float(np.mean(within)), _mean_distance(np.stack([g.mean(axis=0) for g in groups]))
    )


# -------------------------------------------------------------------------- reconstruction quality


def psnr(images: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Peak signal-to-noise ratio in dB of uint8 [..., H, W, C], per image; inf where they agree."""
    errors = (images.astype(np.float64) - others.astype(np.float64)) ** 2
    with np.errstate(divide="ignore"):
        return 10 * np.log10(255**2 / errors.mean(axis=(-3, -2, -1)))


def ssim(images: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Structural similarity of uint8 [..., H, W, C], per image; 1 where they agree.

    Wang et al. (2004) with a uniform 7 x 7 window, sample (co)variances, K1 = 0.01, K2 = 0.03, and
    the mean over all windows that lie inside the image and over channels.

    Raises:
        ValueError: The images are smaller than the window.
    """
    if min(images.shape[-3:-1]) < _WINDOW:
        raise ValueError(f"ssim needs {_WINDOW} x {_WINDOW} pixels; got {images.shape[-3:-1]}")
    first, second = images.astype(np.int64), others.astype(np.int64)
    area = _WINDOW**2
    sum_1, sum_2 = _window_sums(first), _window_sums(second)
    variance_1 = (_window_sums(first * first) - sum_1 * sum_1 / area) / (area - 1)
    variance_2 = (_window_sums(second * second) - sum_2 * sum_2 / area) / (area - 1)
    covariance = (_window_sums(first * second) - sum_1 * sum_2 / area) / (area - 1)
    mean_1, mean_2 = sum_1 / area, sum_2 / area
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    luminance = (2 * mean_1 * mean_2 + c1) / (mean_1 * mean_1 + mean_2 * mean_2 + c1)
    structure = (2 * covariance + c2) / (variance_1 + variance_2 + c2)
    return (luminance * structure).mean(axis=(-3, -2, -1))


_WINDOW = 7
_ROWS = 1024  # of a matrix of distances that is computed at a time


def _window_sums(values: np.ndarray) -> np.ndarray:
    """Sums over all windows of [..., H, W, C], by running totals, exact because integers."""
    for axis in (-3, -2):
        totals = np.moveaxis(values.cumsum(axis=axis), axis, 0)
        totals = np.concatenate([np.zeros_like(totals[:1]), totals])
        values = np.moveaxis(totals[_WINDOW:] - totals[:-_WINDOW], 0, axis)
    return values


# ---------------------------------------------------------------------------------------- averages


def _percent(is_hit: np.ndarray) -> float:
    return 100.0 * int(is_hit.sum()) / len(is_hit)


def _mean_or_zero(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0


def _mean_or_none(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    return float(numerator / denominator) if numerator is not None and denominator else None


def unit_rows(features: np.ndarray) -> np.ndarray:
    """Rows of length 1; a row of zeros has no direction and stays."""
    rows = np.asarray(features, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def _mean_distance(points: np.ndarray) -> float:
    """Over all pairs of different rows."""
    points = points - points.mean(axis=0)  # keeps digits when all points are close
    lengths, total = (points**2).sum(axis=1), 0.0
    for first in range(0, len(points), _ROWS):  # all pairs at once would not fit in memory
        rows = slice(first, first + _ROWS)
        squares = lengths[rows, None] + lengths - 2 * points[rows] @ points.T
        np.fill_diagonal(squares[:, first:], 0)
        total += float(np.sqrt(np.maximum(squares, 0)).sum())
    return total / (len(points) * (len(points) - 1))
