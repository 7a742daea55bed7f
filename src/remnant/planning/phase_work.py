"""What the images of one phase take: one step of each kind, counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from remnant.images import ImageSet, Task
from remnant.methods import Method, TellsRows
from remnant.phases import Batch, Phase
from remnant.planning.row_kinds import kinds_of_rows
from remnant.planning.shape_flops import ShapeFlops
from remnant.training.batches import Feeder, Preprocessing
from remnant.training.trainer import only_moving

_COUNTED = 4  # rows of each kind

# Of an image set: images per class, among new classes and among old ones. None: no such class.
PerClass = tuple[float | None, float | None]


@dataclass(frozen=True)
class PhaseWork:
    """What one phase of a task takes."""

    name: str
    phase: Phase
    data: PerClass
    replay: PerClass
    # FLOPs of a row by what it is: (in a whole step, replayed, known in part).
    flops: dict[tuple[bool, bool, bool], float]


def count_phase(method: Method[Any], task: Task, phase: Phase, look: Preprocessing) -> PhaseWork:
    sets = (phase.data, phase.replay, phase.twins)
    is_partial = any(one is not None and one.is_known is not None for one in sets)
    flops: dict[tuple[bool, bool, bool], float] = {}
    method.train()
    with only_moving(method, phase):
        for in_part in (False, True) if is_partial else (False,):
            # New images are shown in part as their twins alone: all of them, where that is counted.
            twin_ratio = 1.0 if in_part else phase.twin_ratio
            shown = replace(phase, partial_view_ratio=float(in_part), twin_ratio=twin_ratio)
            for whole_step, batch in _batches(shown, look):
                for is_replay in (False, True):
                    rows = torch.nonzero(batch.is_replay == is_replay).flatten()
                    if len(rows):
                        found = _mean_flops(method, phase, batch.take(rows))
                        flops[whole_step, is_replay, in_part] = found
    method.eval()
    return PhaseWork(
        phase.name,
        phase,
        count_per_class(phase.data, task),
        count_per_class(phase.replay, task),
        flops,
    )


def _mean_flops(method: Method[Any], phase: Phase, batch: Batch) -> float:
    """FLOPs of a row, on average over the kinds that the method tells apart."""
    if not isinstance(method, TellsRows):
        return _flops_of_row(method, phase, batch)
    kinds = kinds_of_rows(method, batch)
    return sum(share * _count(method, phase, rows) for share, rows in kinds)


def _flops_of_row(method: Method[Any], phase: Phase, batch: Batch) -> float:
    """With a row's share of what a step takes however many rows it has, as a meta step may."""
    few, all_rows = torch.arange(len(batch.labels))[:_COUNTED], len(batch.labels)
    one = _count(method, phase, batch.take(few))
    if all_rows <= len(few) or all(player.loss == method.loss for player in phase.players):
        return one
    steps = len(few) * one, all_rows * _count(method, phase, batch)
    slope = (steps[1] - steps[0]) / (all_rows - len(few))
    return slope + (steps[0] - len(few) * slope) / phase.schedule.batch_size


def _batches(phase: Phase, look: Preprocessing) -> Iterator[tuple[bool, Batch]]:
    """A batch of a whole step and one of another, as far as there are both; half of it new."""
    changes = {"batch_size": 4 * _COUNTED, "sampling": "share", "new_share": (0.5, 0.5)}
    few = replace(phase, schedule=phase.schedule.model_copy(update=changes))
    feeder = Feeder(few, look, 0, torch.device("cpu"))
    num_steps = feeder.sampler.num_steps
    picked: dict[bool, int] = {}
    for step in range(num_steps):
        picked.setdefault(is_whole(phase, step, num_steps), step)
    for kind, step in picked.items():
        for parts in feeder.batches(range(step, step + 1), range(1), 1):
            yield kind, parts[0]


def is_whole(phase: Phase, step: int, num_steps: int) -> bool:
    return phase.is_whole_step is not None and phase.is_whole_step(step, num_steps)


def _count(method: Method[Any], phase: Phase, batch: Batch) -> float:
    """The FLOPs of a row in every player's turn; one that moves more rarely counts in part."""
    total = 0.0
    for player in phase.players:
        with ShapeFlops() as count:
            torch.stack([term.float() for term in player.loss(batch).values()]).sum().backward()
        total += count.flops / player.every
        method.zero_grad(set_to_none=True)
    return total / len(batch.labels)


def count_per_class(images: ImageSet | None, task: Task) -> PerClass:
    if images is None:
        return None, None
    is_new = images.labels >= task.num_old_classes

    def mean(labels: Tensor) -> float | None:
        return len(labels) / len(labels.unique()) if len(labels) else None

    return mean(images.labels[is_new]), mean(images.labels[~is_new])
