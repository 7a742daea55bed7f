"""How much of a network's answer follows from an image's look and not from what it shows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from remnant.errors import InputError
from remnant.images import ImageSet, Task
from remnant.probe.finished_run import FinishedRun, open_run
from remnant.probe.looks import looks_of
from remnant.probe.score_bias import ScoreBias, score_bias

_MIN_LEAN = 5.0  # points; less is not worth a warning
_MIN_ERRORS = 3.0  # standard errors; less may be chance


@dataclass(frozen=True)
class LookResult:
    """What a network answers to test images that look in one way; all numbers are percent."""

    name: str
    about: str
    old_to_newest: float  # of the images of old classes, those taken for one of the newest
    new_to_newest: float  # of the images of the newest classes
    accuracy_old: float
    accuracy_new: float
    accuracy: float  # the mean of both, each class counted alike
    lean: float = 0.0  # points by which the look moves answers to the newest classes, old and new
    lean_error: float = 0.0  # standard error of `lean`, from above

    @property
    def is_cue(self) -> bool:
        return abs(self.lean) >= max(_MIN_LEAN, _MIN_ERRORS * self.lean_error)


@dataclass(frozen=True)
class CueTable:
    """All looks of one run."""

    run: str
    num_old_images: int
    num_new_images: int
    newest_classes: list[str]
    looks: list[LookResult]
    left_out: dict[str, str]  # look -> why
    bias: ScoreBias

    @property
    def reading(self) -> str:
        """The table in one sentence."""
        cues = sorted((one for one in self.looks if one.is_cue), key=lambda one: -abs(one.lean))
        if not cues:
            largest = max((abs(one.lean) for one in self.looks), default=0.0)
            return (
                f"No look moves answers to or from the newest classes by much (at most "
                f"{largest:.1f} points): no cue was found."
            )
        parts = [
            f"{one.name!r} moves {abs(one.lean):.1f} points of the answers "
            f"{'to' if one.lean > 0 else 'away from'} the newest classes"
            for one in cues
        ]
        side = "new" if cues[0].lean > 0 else "old"
        return f"{_join(parts)}: the network takes {cues[0].name!r} as a sign of {side} classes."

    def to_json(self) -> dict[str, Any]:
        looks = [asdict(one) | {"is_cue": one.is_cue} for one in self.looks]
        bias = asdict(self.bias) | {"reading": self.bias.reading}
        return asdict(self) | {"looks": looks, "bias": bias, "reading": self.reading}


def probe_run(folder: Path, *, max_images: int = 2000, data_root: Path | None = None) -> CueTable:
    """Show test images of a finished run in every look, and count what becomes of the answers.

    A look that hides something moves answers of old images to the newest classes and those of new
    images away from them; a cue moves both in one direction. That is what `lean` measures: the mean
    of both moves.

    Args:
        max_images: Of old and of new images, each; spread evenly over the test images.

    Raises:
        InputError: The run is not finished, has one task, or its data are missing.
    """
    if max_images < 1:
        raise InputError(f"--images must be at least 1; got {max_images}.")
    run = open_run(folder, data_root)
    if len(run.stream) < 2:
        raise InputError(
            f"{folder} has one task, so there are no old classes to probe. Give a "
            "run of several tasks."
        )
    last = run.stream[len(run.stream) - 1]
    tests, newest = run.stream.seen_tests(last), last.new_labels
    is_new = tests.labels >= newest.start
    old, new = (_some(tests, which, max_images) for which in (~is_new, is_new))
    looks, left_out = looks_of(run)
    results: list[LookResult] = []
    for look in looks:
        counts = [_count(images, look.predict(images), newest.start) for images in (old, new)]
        shares = _shares(counts, len(newest) / last.num_seen_classes)
        plain = results[0] if results else None
        lean = {} if plain is None else _lean(shares, plain, len(old), len(new))
        results.append(LookResult(look.name, look.about, **shares, **lean))
    bias = _bias(run, last, (old, new))
    names = list(last.class_names)
    return CueTable(str(folder), len(old), len(new), names, results, left_out, bias)


def _bias(run: FinishedRun, last: Task, tests: tuple[ImageSet, ...]) -> ScoreBias:
    memory, num_images = run.method.memory, None
    # Of a total budget, old classes had more before the newest ones took their share.
    if memory is not None and memory.budget.per_class:
        learned = torch.bincount(last.train.labels, minlength=last.num_seen_classes).tolist()
        num_images = memory.counts[: last.num_old_classes] + learned[last.num_old_classes :]
    scores = torch.cat([run.reader.apply(run.method.predict, images) for images in tests])
    labels = torch.cat([images.labels for images in tests])
    return score_bias(scores, labels, last.num_old_classes, num_images)


def _some(tests: ImageSet, is_chosen: Tensor, most: int) -> ImageSet:
    positions = torch.nonzero(is_chosen).flatten()
    spread = torch.linspace(0, len(positions) - 1, min(most, len(positions))).long()
    return tests.select(positions[spread])


def _count(images: ImageSet, answers: Tensor, first_newest: int) -> tuple[float, float]:
    """Percent of answers [R, N] that name one of the newest classes, and that are right."""
    return _percent(answers >= first_newest), _percent(answers == images.labels)


def _shares(counts: list[tuple[float, float]], new_share: float) -> dict[str, float]:
    (old_to_newest, old_right), (new_to_newest, new_right) = counts
    return {
        "old_to_newest": old_to_newest,
        "new_to_newest": new_to_newest,
        "accuracy_old": old_right,
        "accuracy_new": new_right,
        "accuracy": (1 - new_share) * old_right + new_share * new_right,
    }


def _lean(
    shares: dict[str, float], plain: LookResult, num_old: int, num_new: int
) -> dict[str, float]:
    moves, variance = [], 0.0
    for name, count in (("old_to_newest", num_old), ("new_to_newest", num_new)):
        before, after = getattr(plain, name), shares[name]
        moves.append(after - before)
        # As if both were drawn apart: the images are the same, so the error is smaller.
        variance += (before * (100 - before) + after * (100 - after)) / count
    return {"lean": sum(moves) / 2, "lean_error": sqrt(variance) / 2}


def _percent(is_true: Tensor) -> float:
    return 100 * float(is_true.double().mean())


def _join(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
