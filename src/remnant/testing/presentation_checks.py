"""That new and replayed images look alike in training, where a method promises that they do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from remnant.images import patches_to_pixels
from remnant.testing.tiny_stream import MEAN, STD, Reads, make_tasks
from remnant.testing.trial import Shown, Trial
from remnant.views.augment import plain_views

_MAX_ERRORS = 4.0  # standard errors by which shares may differ
_CLOSE = 1e-4  # of normalised values


@dataclass(frozen=True)
class Look:
    """How the images of one origin look in one phase, each number a mean over its images."""

    count: int
    has_border: float  # share in which a black border is to be seen
    shown_share: float  # of the patches
    is_real: float  # share of which every pixel shown is that of a real image


def check_presentation(trial: Trial) -> None:
    """Where settings promise it, nothing but content tells a replayed image from a new one.

    They do by `presentation="symmetric"` and by `codec_view_ratio=1`.

    Compares how often a black border is to be seen, how much of an image is shown, and how often
    what is shown is neither coded nor completed.
    """
    is_symmetric = getattr(trial.config, "presentation", None) == "symmetric"
    if not is_symmetric and trial.config.codec_view_ratio < 1:
        return
    found = list(_looks_by_phase(trial))
    assert found, "where both must look alike, some phase must show new and replayed images"
    for phase, new, old in found:
        for name in ("has_border", "shown_share", "is_real"):
            one, other = getattr(new, name), getattr(old, name)
            assert abs(one - other) <= _tolerance(new, old, name), (
                f"new and replayed images must look alike in phase {phase!r}; {name} is {one:.2f} "
                f"for {new.count} new and {other:.2f} for {old.count} replayed ones"
            )


def _tolerance(new: Look, old: Look, name: str) -> float:
    share = (new.count * getattr(new, name) + old.count * getattr(old, name)) / (
        new.count + old.count
    )
    error = sqrt(max(share * (1 - share), 0.0) * (1 / new.count + 1 / old.count))
    return _MAX_ERRORS * error + 1e-6


def _looks_by_phase(trial: Trial) -> Iterator[tuple[str, Look, Look]]:
    """Of every phase that shows both: its name, new images and replayed ones."""
    phases: dict[tuple[int, str], list[Shown]] = {}
    for one in trial.whole.notes.shown:
        phases.setdefault((one.task, one.phase), []).append(one)
    variants = _real_views(trial)
    for (_, phase), steps in phases.items():
        is_replay = torch.cat([one.is_replay for one in steps])
        if is_replay.any() and not is_replay.all():
            rows = torch.cat([_describe(one, variants) for one in steps])
            yield phase, _mean(rows[~is_replay]), _mean(rows[is_replay])


def _mean(rows: Tensor) -> Look:
    return Look(len(rows), *rows.mean(dim=0).tolist())


def _describe(shown: Shown, variants: dict[int, Tensor]) -> Tensor:
    """For each image: has_border, shown_share, is_real; [B, 3]."""
    size = (shown.views.shape[2], shown.views.shape[3])
    if shown.patches is None:
        seen = torch.ones(len(shown.views), *size, dtype=torch.bool)
        share = torch.ones(len(shown.views))
    else:
        seen = patches_to_pixels(shown.patches, size)
        share = shown.patches.flatten(1).double().mean(dim=1)
    is_real = [
        bool((((variants[label] - view).abs() < _CLOSE) | ~where).flatten(1).all(dim=1).any())
        for view, where, label in zip(shown.views, seen, shown.labels.tolist(), strict=True)
    ]
    border = _has_border(shown.views, seen)
    return torch.stack([border.double(), share.double(), torch.tensor(is_real).double()], dim=1)


def _has_border(views: Tensor, seen: Tensor) -> Tensor:
    """Whether all that is seen of some edge line is black, bool [B]."""
    black = torch.tensor([-mean / std for mean, std in zip(MEAN, STD, strict=True)])
    is_black = ((views - black.view(1, -1, 1, 1)).abs() < _CLOSE).all(dim=1)  # [B, H, W]
    found = []
    for edge in ((slice(None), 0), (slice(None), -1), (slice(None), slice(None), 0),
                 (slice(None), slice(None), -1)):  # fmt: skip
        found.append((is_black | ~seen)[edge].all(dim=1) & seen[edge].any(dim=1))
    return torch.stack(found).any(dim=0)


def _real_views(trial: Trial) -> dict[int, Tensor]:
    """By label: its training images in all shifts and mirror images that training can give."""
    found = {}
    for task in make_tasks(trial.task_sizes, Reads()):
        for label in task.new_labels:
            images = task.train.of_class(label)
            pixels = images.images.read(torch.arange(len(images)))
            padded = F.pad(pixels, (0, 0, *([trial.padding] * 4)))  # black before normalising
            height, width = pixels.shape[1:3]
            views = [
                plain_views(padded[:, down : down + height, right : right + width], MEAN, STD)
                for down, right in product(range(2 * trial.padding + 1), repeat=2)
            ]
            whole = torch.cat(views)
            found[label] = torch.cat([whole, whole.flip(3)])
    return found
