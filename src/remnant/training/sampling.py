"""The images of each step: a pure function of seed and step, so resuming needs no state.

Draws are numbered throughout the phase. With "union" sampling, draw k is element k of an endless
sequence of reshuffles of all images. With "balanced" sampling, the classes take turns in an order
that is shuffled in each round, and each class has an endless sequence of its own. With "share", a
draw is a new image whenever the new images are behind their share; old classes take turns in the
other draws. With several views per image, every draw is repeated that many times.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from remnant.phases import Schedule, Share
from remnant.randomness import generator


class DrawSequence(Protocol):
    """An endless numbered sequence of positions."""

    def between(self, start: int, stop: int) -> Tensor:
        """Draws `start` to `stop` - 1: int64."""
        ...


class Sampler:
    """Positions in the new data followed by the replay, step by step.

    The batches of an epoch differ in size by one image at most: there is no small last batch.
    """

    def __init__(self, labels: Tensor, num_new: int, schedule: Schedule, seed: int) -> None:
        self.draws_per_epoch = num_new if schedule.steps_from == "new" else len(labels)
        self.steps_per_epoch = max(1, -(-self.draws_per_epoch // schedule.batch_size))
        self.num_steps = self.steps_per_epoch * schedule.epochs
        self._views_per_image = schedule.views_per_image
        self._labels = labels
        self._num_new = num_new
        self._schedule = schedule
        everything = torch.arange(len(labels))
        self._shares = _shares_of_new(schedule, labels, num_new)
        self._draws_of_phase: DrawSequence = EndlessShuffle(everything, seed, "all")
        if schedule.sampling == "balanced":
            self._draws_of_phase = ClassTurns(everything, labels, seed)
        elif schedule.sampling == "share" and num_new < len(labels):
            num_draws = schedule.epochs * self.draws_per_epoch
            self._draws_of_phase = SharedDraws(
                EndlessShuffle(everything[:num_new], seed, "new"),
                ClassTurns(everything[num_new:], labels[num_new:], seed),
                self._shares,
                -(-num_draws // schedule.views_per_image),
            )

    def positions(self, step: int) -> Tensor:
        """The images of one step: int64 [B]."""
        (start, stop), repeats = self._draws(step), self._views_per_image
        first = start // repeats
        drawn = self._draws_of_phase.between(first, -(-stop // repeats))
        shown = drawn.repeat_interleave(repeats)
        return shown[start - first * repeats : stop - first * repeats]

    def class_shares(self, step: int, num_classes: int) -> Tensor:
        """Which part of the draws around `step` each class makes up: float [num_classes]."""
        counts = torch.bincount(self._labels, minlength=num_classes).double()
        if self._schedule.sampling == "union":
            return (counts / counts.sum()).float()
        if self._schedule.sampling == "balanced" or self._num_new == len(self._labels):
            return ((counts > 0) / (counts > 0).sum()).float()
        new = torch.bincount(self._labels[: self._num_new], minlength=num_classes).double()
        old = torch.bincount(self._labels[self._num_new :], minlength=num_classes) > 0
        first, last = self._shares
        share = first + (last - first) * step / max(1, self.num_steps - 1)
        return (share * new / new.sum() + (1 - share) * old / old.sum()).float()

    def batch_size(self, step: int) -> int:
        start, stop = self._draws(step)
        return stop - start

    def _draws(self, step: int) -> tuple[int, int]:
        epoch, within = divmod(step, self.steps_per_epoch)
        first = epoch * self.draws_per_epoch
        start = within * self.draws_per_epoch // self.steps_per_epoch
        stop = (within + 1) * self.draws_per_epoch // self.steps_per_epoch
        return first + start, first + stop


def _shares_of_new(schedule: Schedule, labels: Tensor, num_new: int) -> tuple[float, float]:
    """The share of new images at the first and at the last step."""
    num_new_classes, num_classes = len(labels[:num_new].unique()), len(labels.unique())

    def value(share: Share) -> float:
        return num_new_classes / num_classes if share == "balanced" else share

    first, last = schedule.new_share
    return value(first), value(last)


class ClassTurns:
    """Classes take turns, in an order that is shuffled in each round."""

    def __init__(self, positions: Tensor, labels: Tensor, seed: int) -> None:
        classes = labels.unique().tolist()
        self._of_class = [
            EndlessShuffle(positions[labels == label], seed, f"class {label}") for label in classes
        ]
        self._turns = EndlessShuffle(torch.arange(len(classes)), seed, "classes")

    def between(self, start: int, stop: int) -> Tensor:
        """Draws `start` to `stop` - 1."""
        chosen = self._turns.between(start, stop).tolist()
        rounds = [number // len(self._of_class) for number in range(start, stop)]
        drawn = [
            self._of_class[index].between(turn, turn + 1)
            for index, turn in zip(chosen, rounds, strict=True)
        ]
        return torch.cat(drawn)


class SharedDraws:
    """New and old draws mixed: the share of new ones moves linearly over the phase.

    Args:
        shares: Of new draws, at the first and at the last of `num_draws`.
    """

    def __init__(
        self, new: DrawSequence, old: DrawSequence, shares: tuple[float, float], num_draws: int
    ) -> None:
        self._new, self._old = new, old
        self._first, self._last = shares
        self._num_draws = num_draws

    def between(self, start: int, stop: int) -> Tensor:
        """Draws `start` to `stop` - 1."""
        counts = [self._num_new_before(number) for number in range(start, stop + 1)]
        is_new = torch.tensor(counts[1:]) > torch.tensor(counts[:-1])
        drawn = torch.empty(stop - start, dtype=torch.int64)
        if counts[-1] > counts[0]:
            drawn[is_new] = self._new.between(counts[0], counts[-1])
        if not bool(is_new.all()):
            drawn[~is_new] = self._old.between(start - counts[0], stop - counts[-1])
        return drawn

    def _num_new_before(self, number: int) -> int:
        """How many of the first `number` draws are new: the integral of the share, rounded down."""
        slope = (self._last - self._first) / (2 * self._num_draws)
        return int(number * (self._first + slope * number))


class EndlessShuffle:
    """An endless sequence of reshuffles of the same members, with random access."""

    def __init__(self, members: Tensor, seed: int, purpose: str) -> None:
        self._members = members
        self._seed = seed
        self._purpose = purpose
        self._cycle, self._shuffled = -1, members  # the latest shuffle

    def between(self, start: int, stop: int) -> Tensor:
        """Elements `start` to `stop` - 1 of the sequence."""
        size = len(self._members)
        parts = []
        while start < stop:
            cycle, offset = divmod(start, size)
            taken = min(stop - start, size - offset)
            parts.append(self._shuffle(cycle)[offset : offset + taken])
            start += taken
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _shuffle(self, cycle: int) -> Tensor:
        if cycle != self._cycle:
            rng = generator(self._seed, self._purpose, cycle)
            order = torch.randperm(len(self._members), generator=rng)
            self._cycle, self._shuffled = cycle, self._members[order]
        return self._shuffled
