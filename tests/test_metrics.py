from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remnant import metrics

# Three tasks of two, one and two classes; worked by hand.
TASK_OF_LABEL = [0, 0, 1, 2, 2]


def pad(*rows: list[int]) -> np.ndarray:
    return np.array([[*row, *[-1] * (5 - len(row))] for row in rows])


PREDICTIONS = [
    (pad([0, 1], [1, 0], [1, 0], [0, 1]), np.array([0, 0, 1, 1])),
    (pad([0, 1, 2], [2, 0, 1], [1, 2, 0], [1, 0, 2], [2, 1, 0]), np.array([0, 0, 1, 1, 2])),
    (
        np.array(
            [
                [4, 3, 2, 1, 0],
                [0, 1, 2, 3, 4],
                [3, 4, 2, 0, 1],
                [1, 0, 2, 3, 4],
                [3, 2, 1, 0, 4],
                [3, 4, 0, 1, 2],
                [0, 1, 2, 3, 4],
                [4, 0, 1, 2, 3],
            ]
        ),
        np.array([0, 0, 1, 1, 2, 3, 3, 4]),
    ),
]
MATRIX = [[50.0], [75.0, 100.0], [50.0, 0.0, 200 / 3]]


def random_predictions(seed: int) -> tuple[list[tuple[np.ndarray, np.ndarray]], list[int]]:
    """A stream of one to four tasks with up to three classes each and random guesses."""
    draws = np.random.default_rng(seed)
    sizes = draws.integers(1, 4, size=draws.integers(1, 5))
    owner = [task for task, size in enumerate(sizes) for _ in range(size)]
    predictions = []
    for seen in np.cumsum(sizes):
        labels = np.concatenate([np.arange(seen), draws.integers(0, seen, 20)])
        top5 = np.full((len(labels), 5), -1)
        for row in top5:
            row[: min(5, seen)] = draws.permutation(seen)[:5]
        predictions.append((top5, labels))
    return predictions, owner


def random_matrix(seed: int) -> list[list[float]]:
    draws = np.random.default_rng(seed)
    return [draws.uniform(0, 100, size=row + 1).tolist() for row in range(draws.integers(1, 7))]


seeds = st.integers(0, 10_000)


# ------------------------------------------------------------------------------------- accuracies


def test_the_accuracy_matrix_worked_by_hand() -> None:
    matrix = metrics.accuracy_matrix(PREDICTIONS, TASK_OF_LABEL)
    for found, expected in zip(matrix, MATRIX, strict=True):
        assert found == pytest.approx(expected)


def test_overall_and_top5_accuracies_worked_by_hand() -> None:
    assert metrics.overall_accuracies(PREDICTIONS) == [50.0, 80.0, 50.0]
    assert metrics.top5_accuracies(PREDICTIONS) == [100.0, 100.0, 100.0]


@settings(max_examples=40)
@given(seeds)
def test_accuracies_equal_counting_image_by_image(seed: int) -> None:
    predictions, owner = random_predictions(seed)
    matrix = metrics.accuracy_matrix(predictions, owner)
    for index, (top5, labels) in enumerate(predictions):
        for task in range(index + 1):
            hits = [top5[n][0] == y for n, y in enumerate(labels) if owner[y] == task]
            assert matrix[index][task] == pytest.approx(100 * sum(hits) / len(hits))
        first = [top5[n][0] == y for n, y in enumerate(labels)]
        among = [y in top5[n].tolist() for n, y in enumerate(labels)]
        overall = metrics.overall_accuracies(predictions)[index]
        assert overall == pytest.approx(100 * sum(first) / len(labels))
        best5 = metrics.top5_accuracies(predictions)[index]
        assert best5 == pytest.approx(100 * sum(among) / len(labels))


def test_padding_is_never_a_hit() -> None:
    assert metrics.top5_accuracies([(pad([0]), np.array([1]))]) == [0.0]


def test_a_label_outside_the_five_best_is_a_miss() -> None:
    assert metrics.top5_accuracies([(np.array([[0, 1, 2, 3, 4]]), np.array([5]))]) == [0.0]


def test_a_task_without_test_images_is_refused() -> None:
    with pytest.raises(ValueError, match="task 1 has no test image"):
        metrics.accuracy_matrix([PREDICTIONS[0], PREDICTIONS[0]], TASK_OF_LABEL)


def test_the_average_includes_the_first_task() -> None:
    assert metrics.average([50.0, 80.0, 50.0]) == 60.0
    assert metrics.last([50.0, 80.0, 45.0]) == 45.0


def test_the_newest_accuracy_is_the_diagonal_without_the_first_task() -> None:
    assert metrics.newest(MATRIX) == pytest.approx((100 + 200 / 3) / 2)
    assert metrics.newest([[90.0]]) is None  # no task but the first


# -------------------------------------------------------------------------------------- forgetting


def test_forgetting_worked_by_hand() -> None:
    assert metrics.forgetting_per_task(MATRIX) == [25.0, 100.0]
    assert metrics.forgetting(MATRIX) == 62.5


def test_a_task_that_improves_at_the_end_has_negative_forgetting() -> None:
    assert metrics.forgetting_per_task([[40.0], [60.0, 90.0]]) == [-20.0]


@given(seeds)
def test_forgetting_equals_its_definition(seed: int) -> None:
    matrix = random_matrix(seed)
    total, last = 0.0, len(matrix) - 1
    for task in range(last):
        best = float("-inf")
        for row in range(task, last):
            best = max(best, matrix[row][task])
        total += best - matrix[last][task]
    assert metrics.forgetting(matrix) == pytest.approx(total / last if last else 0.0)


@given(seeds)
def test_backward_transfer_equals_its_definition(seed: int) -> None:
    matrix = random_matrix(seed)
    changes = [
        matrix[later][task] - matrix[task][task]
        for later, task in itertools.product(range(len(matrix)), repeat=2)
        if later > task
    ]
    expected = sum(changes) / len(changes) if changes else 0.0
    assert metrics.backward_transfer(matrix) == pytest.approx(expected)


def test_backward_transfer_worked_by_hand() -> None:
    assert metrics.backward_transfer(MATRIX) == pytest.approx((25 + 0 - 100) / 3)


@given(st.floats(0, 100), st.integers(1, 6))
def test_an_equal_matrix_forgets_and_transfers_nothing(accuracy: float, num_tasks: int) -> None:
    matrix = [[accuracy] * (row + 1) for row in range(num_tasks)]
    assert metrics.forgetting(matrix) == 0
    assert metrics.backward_transfer(matrix) == 0


def test_the_summary_holds_what_a_result_reports() -> None:
    found = metrics.summary(PREDICTIONS, TASK_OF_LABEL)
    assert found["average_accuracy"] == 60.0
    assert found["last_accuracy"] == 50.0
    assert found["top5_average"] == 100.0
    assert found["forgetting"] == 62.5
    assert found["newest_accuracy"] == pytest.approx(250 / 3)
    assert found["accuracy_matrix"] == metrics.accuracy_matrix(PREDICTIONS, TASK_OF_LABEL)


# ----------------------------------------------------------------------------------------- density


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    lengths = np.linalg.norm(first) * np.linalg.norm(second)
    return float(first @ second / lengths) if lengths else 0.0


def random_features(seed: int) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(seed)
    labels = np.concatenate([[0, 0, 1, 1, 2], draws.integers(0, 3, 6)])
    features = draws.uniform(0.1, 1, size=(len(labels), 4)).astype(np.float32)
    features[0] = 0  # a sample without direction is like no other
    return features, labels


@settings(max_examples=40)
@given(seeds)
def test_density_equals_the_mean_over_all_pairs(seed: int) -> None:
    features, labels = random_features(seed)
    within: dict[int, list[float]] = {0: [], 1: [], 2: []}
    between = []
    for i, j in itertools.permutations(range(len(labels)), 2):
        similarity = cosine(features[i].astype(float), features[j].astype(float))
        (within[labels[i]] if labels[i] == labels[j] else between).append(similarity)
    intra = float(np.mean([np.mean(pairs) for pairs in within.values() if pairs]))
    inter = float(np.mean(between))
    expected = {"pi": intra / inter, "intra": intra, "inter": inter}
    assert metrics.density(features, labels) == pytest.approx(expected)


@settings(max_examples=40)
@given(seeds)
def test_pi_roth_equals_the_mean_over_all_pairs(seed: int) -> None:
    features, labels = random_features(seed)
    features = features[1:].astype(float)
    features, labels = features / np.linalg.norm(features, axis=1)[:, None], labels[1:]
    within, centres = [], []
    for label in range(3):
        group = features[labels == label]
        centres.append(group.mean(axis=0))
        pairs = [np.linalg.norm(a - b) for a, b in itertools.combinations(group, 2)]
        within += [np.mean(pairs)] if pairs else []
    between = [np.linalg.norm(a - b) for a, b in itertools.combinations(centres, 2)]
    expected = float(np.mean(within) / np.mean(between))
    assert metrics.pi_roth(5 * features, labels) == pytest.approx(expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "_ROWS", 3)  # of the pairs at a time
        assert metrics.pi_roth(5 * features, labels) == pytest.approx(expected)


def test_density_of_two_tight_classes_worked_by_hand() -> None:
    features = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    found = metrics.density(features, np.array([7, 7, 9, 9]))
    assert found == pytest.approx({"pi": 1 / 0.6, "intra": 1.0, "inter": 0.6})
    assert metrics.pi_roth(features, np.array([7, 7, 9, 9])) == pytest.approx(0, abs=1e-7)


def test_what_too_few_samples_cannot_tell_is_none() -> None:
    features = np.eye(2)
    assert metrics.density(features, np.array([0, 0]))["inter"] is None
    assert metrics.density(features, np.array([0, 1])) == {"pi": None, "intra": None, "inter": 0.0}
    assert metrics.pi_roth(features, np.array([0, 1])) is None
    assert metrics.pi_roth(features, np.array([0, 0])) is None


# --------------------------------------------------------------------------- reconstruction quality


def random_pair(seed: int) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(seed)
    first = draws.integers(0, 256, size=(2, 9, 8, 3), dtype=np.uint8)
    noise = draws.integers(-20, 21, size=first.shape)
    return first, np.clip(first.astype(int) + noise, 0, 255).astype(np.uint8)


def slow_ssim(first: np.ndarray, second: np.ndarray) -> float:
    scores = []
    for channel in range(first.shape[2]):
        for row in range(first.shape[0] - 6):
            for column in range(first.shape[1] - 6):
                a = first[row : row + 7, column : column + 7, channel].astype(float).ravel()
                b = second[row : row + 7, column : column + 7, channel].astype(float).ravel()
                covariances = np.cov(a, b)
                c1, c2 = 2.55**2, 7.65**2
                score = (2 * a.mean() * b.mean() + c1) * (2 * covariances[0, 1] + c2)
                score /= a.mean() ** 2 + b.mean() ** 2 + c1
                scores.append(score / (covariances[0, 0] + covariances[1, 1] + c2))
    return float(np.mean(scores))


@settings(max_examples=15)
@given(seeds)
def test_ssim_equals_the_same_done_window_by_window(seed: int) -> None:
    first, second = random_pair(seed)
    expected = [slow_ssim(a, b) for a, b in zip(first, second, strict=True)]
    np.testing.assert_allclose(metrics.ssim(first, second), expected)


def test_equal_images_have_ssim_one_and_infinite_psnr() -> None:
    first, _ = random_pair(0)
    assert metrics.ssim(first, first).tolist() == [1.0, 1.0]
    assert metrics.psnr(first, first).tolist() == [np.inf, np.inf]


def test_psnr_worked_by_hand_for_each_image() -> None:
    first = np.zeros((2, 4, 4, 3), dtype=np.uint8)
    second = np.stack([first[0] + 255, first[1] + 1]).astype(np.uint8)
    np.testing.assert_allclose(metrics.psnr(first, second), [0.0, 48.130803608679], atol=1e-9)


def test_psnr_does_not_wrap_bytes_around() -> None:
    first, second = np.full((4, 4, 3), 10, np.uint8), np.full((4, 4, 3), 11, np.uint8)
    assert metrics.psnr(first, second) == metrics.psnr(second, first)


def test_images_smaller_than_the_ssim_window_are_refused() -> None:
    small = np.zeros((6, 9, 3), dtype=np.uint8)
    with pytest.raises(ValueError, match="7 x 7"):
        metrics.ssim(small, small)
