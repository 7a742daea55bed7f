"""Standard errors against the spread of many draws of test images."""

from __future__ import annotations

import numpy as np
import pytest

from remnant.metrics import summary
from remnant.runs.run_folder import RunResult
from remnant.studies.study import AVG, FORGETTING, LAST, NEWEST, TOP5_AVG, TOP5_LAST, Metric

PER_TASK = 150
# The chance to be right on an image of each task, after each task.
CHANCES = [[0.9], [0.6, 0.85], [0.3, 0.7, 0.8]]


def draw(rng: np.random.Generator, is_same_image_as_hard: bool) -> RunResult:
    """A run on new test images, each as hard after every task, or drawn anew after each."""
    labels = np.repeat(np.arange(3), PER_TASK)
    hardness = rng.random(len(labels))
    predictions = []
    for index, chances in enumerate(CHANCES):
        seen = labels[labels <= index]
        luck = hardness if is_same_image_as_hard else rng.random(len(labels))
        right = luck[: len(seen)] < np.array(chances)[seen]
        top5 = np.full((len(seen), 5), -1)
        top5[:, 0] = np.where(right, seen, -1)
        predictions.append((top5, seen))
    return RunResult.model_validate(summary(predictions, [0, 1, 2]) | {"task_sizes": [1, 1, 1]})


@pytest.mark.parametrize("is_same_image_as_hard", [True, False])
@pytest.mark.parametrize("metric", [AVG, LAST, FORGETTING, NEWEST, TOP5_AVG, TOP5_LAST])
def test_an_error_is_not_below_the_spread_over_test_images(
    metric: Metric, is_same_image_as_hard: bool
) -> None:
    rng = np.random.default_rng(0)
    runs = [draw(rng, is_same_image_as_hard) for _ in range(400)]
    values = [metric.measured(run) for run in runs]
    errors = [metric.error(run, [PER_TASK] * 3) for run in runs]
    spread, error = float(np.std(values)), float(np.mean(errors))
    assert error > 0.85 * spread  # up to the noise of 400 draws
    assert error < 3 * spread  # the worst case, but no more


@pytest.mark.parametrize("metric", [LAST, NEWEST])
def test_an_error_of_independent_images_is_the_spread(metric: Metric) -> None:
    rng = np.random.default_rng(1)
    runs = [draw(rng, False) for _ in range(400)]
    spread = float(np.std([metric.measured(run) for run in runs]))
    error = float(np.mean([metric.error(run, [PER_TASK] * 3) for run in runs]))
    assert error == pytest.approx(spread, rel=0.15)


def test_a_share_of_nothing_or_all_is_uncertain_by_an_image() -> None:
    all_right = RunResult(last_accuracy=100.0)
    assert LAST.error(all_right, [10]) == pytest.approx(10.0)


@pytest.mark.parametrize("metric", [AVG, FORGETTING, NEWEST])
def test_a_folder_that_tells_too_little_gives_none(metric: Metric) -> None:
    assert metric.error(RunResult(), [100, 100]) is None
