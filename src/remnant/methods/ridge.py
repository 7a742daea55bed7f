"""Ridge regression to one-hot targets on projected codes; a fifth of the images chooses the rest.

The result depends on the set of codes alone: rows and classes are put into an order that follows
from their bytes before anything is computed.

Axes: N images, D features, M projected features, K classes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache

import numpy as np

PENALTIES = tuple(10.0**power for power in range(-8, 3))  # in units of the mean square
_DEFAULT_PENALTY = 1e-2  # where no image can be held out
_TEMPERATURES = tuple(10.0 ** (power / 8) for power in range(-24, 9))
_HELD_OUT = 5  # one image in so many
_UNFAMILIAR = 0.05  # of the held-out images
_FEW = 40  # of them, among which a twentieth is hardly one
_AT_ONCE = 4096  # images, so that little memory is needed


@dataclass(frozen=True)
class RidgeFit:
    """A linear classifier of projected features, and what was found on held-out images."""

    weights: np.ndarray  # float32 [K, M]
    temperature: float  # by which scores are divided before a softmax
    penalty: float
    means: np.ndarray  # float32 [K, D], of length 1: the mean direction of each class
    least_familiar: float  # of 95 % of the held-out images; -inf where there are none
    held_out: tuple[np.ndarray, np.ndarray]  # labels [H] and scores [H, K] of held-out images


def fit_ridge(codes: list[np.ndarray], projection: np.ndarray) -> RidgeFit:
    """Fit to the codes int8 [N, D] of each class, projected by [D, M].

    The penalty is the one with the smallest error on a fifth of the images, which is not fitted
    for that; the temperature makes the likelihood of that fifth largest. Then all images are
    fitted.
    """
    order = sorted(range(len(codes)), key=lambda label: digest_codes(codes[label]))
    rows = np.concatenate([codes[label] for label in order])
    labels = np.repeat(np.arange(len(order)), [len(codes[label]) for label in order])
    is_held = hold_out(rows)
    penalty, temperature, least = _DEFAULT_PENALTY, 1.0, -np.inf
    scores = np.zeros((0, len(order)))
    if is_held.any() and not is_held.all():
        penalty, scores = _choose(rows, labels, is_held, len(order), projection)
        temperature = choose_temperature(scores, labels[is_held])
        means = class_means(rows[~is_held], labels[~is_held], len(order))
        least = least_of(_familiarity(rows[is_held], scores, means))
    fitted = _Ridge(rows, labels, len(order), projection).weights(penalty)  # [K, M]
    back = np.argsort(order)  # from the canonical order to that of the labels
    names = np.array(order)
    return RidgeFit(
        weights=fitted[back].astype(np.float32),
        temperature=temperature,
        penalty=penalty,
        means=class_means(rows, labels, len(order))[back].astype(np.float32),
        least_familiar=least,
        held_out=(names[labels[is_held]], scores[:, back]),
    )


def digest_codes(rows: np.ndarray) -> bytes:
    """SHA-256, by which rows and classes are put into an order."""
    return hashlib.sha256(rows.tobytes()).digest()


def hold_out(rows: np.ndarray) -> np.ndarray:
    """Bool [N]: which of the codes [N, D] are held out, a fifth of them, by their bytes alone."""
    return np.array([digest_codes(row)[0] % _HELD_OUT == 0 for row in rows], dtype=bool)


def project(codes: np.ndarray, projection: np.ndarray) -> np.ndarray:
    """int8 [N, D] by [D, M] -> float64 [N, M]; exact, as all are whole numbers below 2 ** 24."""
    return np.maximum(codes.astype(np.float32) @ projection, 0).astype(np.float64)


def class_means(rows: np.ndarray, labels: np.ndarray, num_classes: int) -> np.ndarray:
    """float64 [K, D]: the mean of a class's codes, each of length 1, again of length 1."""
    units = unit_rows(rows)
    sums = np.zeros((num_classes, rows.shape[1]))
    np.add.at(sums, labels, units)
    return unit_rows(sums)


def _familiarity(rows: np.ndarray, scores: np.ndarray, means: np.ndarray) -> np.ndarray:
    """[N]: the best score plus the cosine to the nearest mean; low for what was never taught.

    Chosen: the sum, which told clothes never taught from others better than either part alone.
    """
    return scores.max(axis=1) + (unit_rows(rows) @ means.T).max(axis=1)


def least_of(familiarity: np.ndarray) -> float:
    """Below which an image is like none of the classes, from that of held-out images [N].

    Chosen: a twentieth of them is below it. Few images tell little of the worst twentieth: of them
    it is no higher than three deviations below the mean.
    """
    least = float(np.quantile(familiarity, _UNFAMILIAR))
    if len(familiarity) >= _FEW:
        return least
    return min(least, float(familiarity.mean() - 3 * familiarity.std()))


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """float64 [N, D]: rows of length 1, but for those of zeros."""
    rows = rows.astype(np.float64)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def _choose(
    rows: np.ndarray,
    labels: np.ndarray,
    is_held: np.ndarray,
    num_classes: int,
    projection: np.ndarray,
) -> tuple[float, np.ndarray]:
    """The best penalty, and with it the scores [H, K] of the images held out."""
    ridge = _Ridge(rows[~is_held], labels[~is_held], num_classes, projection)
    fits = np.stack([ridge.weights(penalty) for penalty in PENALTIES])  # [P, K, M]
    held = rows[is_held]
    scores = np.concatenate(
        [
            np.einsum(
                "nm,pkm->pnk",
                project(held[first : first + _AT_ONCE], projection),
                fits,
                optimize=True,
            )
            for first in range(0, len(held), _AT_ONCE)
        ],
        axis=1,
    )  # [P, H, K]
    weights = _class_weights(labels[is_held], num_classes)
    targets = np.eye(num_classes)[labels[is_held]]
    errors = (weights[None, :, None] * (scores - targets) ** 2).sum(axis=(1, 2))
    best = int(errors.argmin())
    return PENALTIES[best], scores[best]


def choose_temperature(scores: np.ndarray, labels: np.ndarray) -> float:
    """The one of largest likelihood, as if one more image had been of any class (Laplace).

    Without that, a few images that are all right would make every answer certain.
    """
    doubt = 1 / (len(labels) + 1)
    own = scores[np.arange(len(labels)), labels].sum()
    expected = (1 - doubt) * own + doubt * scores.mean(axis=1).sum()  # under the doubtful labels
    below = scores - scores.max(axis=1, keepdims=True)
    rest = expected - scores.max(axis=1).sum()

    @cache
    def loss(place: int) -> float:
        temperature = _TEMPERATURES[place]
        return float(np.log(np.exp(below / temperature).sum(axis=1)).sum() - rest / temperature)

    # It is convex in 1 / temperature: what follows the first rise is higher still.
    first, last = 0, len(_TEMPERATURES) - 1
    while first < last:
        middle = (first + last) // 2
        if loss(middle) <= loss(middle + 1):
            last = middle
        else:
            first = middle + 1
    return _TEMPERATURES[first]


def _class_weights(labels: np.ndarray, num_classes: int) -> np.ndarray:
    """[N]: every class weighs the same in all."""
    counts = np.bincount(labels, minlength=num_classes)
    return (len(labels) / np.maximum(counts, 1) / max(1, np.count_nonzero(counts)))[labels]


class _Ridge:
    """The decomposition that gives the weights for any penalty: of N x N or of M x M numbers."""

    def __init__(
        self, rows: np.ndarray, labels: np.ndarray, num_classes: int, projection: np.ndarray
    ) -> None:
        roots = np.sqrt(_class_weights(labels, num_classes))[:, None]
        targets = roots * np.eye(num_classes)[labels]  # [N, K]
        count, width = len(rows), projection.shape[1]
        self._rows: np.ndarray | None = None  # [N, M], where there are fewer images than features
        if count < width:
            self._rows = roots * project(rows, projection)
            squares, right = self._rows @ self._rows.T, targets
        else:
            squares, right = np.zeros((width, width)), np.zeros((width, num_classes))
            for first in range(0, count, _AT_ONCE):
                some = slice(first, first + _AT_ONCE)
                projected = roots[some] * project(rows[some], projection)
                squares += projected.T @ projected
                right += projected.T @ targets[some]
        self._values, self._vectors = np.linalg.eigh(squares)
        self._turned = self._vectors.T @ right
        self._mean_square = max(float(np.trace(squares)) / count, 1e-300)

    def weights(self, penalty: float) -> np.ndarray:
        """float64 [K, M]."""
        inverse = 1 / (np.maximum(self._values, 0) + penalty * self._mean_square)
        solved = self._vectors @ (inverse[:, None] * self._turned)
        return (solved if self._rows is None else self._rows.T @ solved).T
