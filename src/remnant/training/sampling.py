"""Which images each step sees: a pure function of seed and step, so resuming needs no state.

Draws are numbered through the whole phase. With "union" sampling draw k is position k of an
endless row of fresh shuffles of all images; with "balanced" sampling the classes take turns (in
a fresh order each round) and each class has such a row of its own. With several views per image
every draw is repeated so often before the next one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from remnant.phases import Schedule
from remnant.randomness import generator


class Sampler:
    """Positions into new data followed by replay, step by step.

    The batches of an epoch differ by one image at most, so that no step is left with a handful.
    """

    def __init__(self, labels: Tensor, num_new: int, schedule: Schedule, seed: int) -> None:
        everything = torch.arange(len(labels))
        self.draws_per_epoch = num_new if schedule.steps_from == "new" else len(labels)
        self.steps_per_epoch = max(1, -(-self.draws_per_epoch // schedule.batch_size))
        self.num_steps = self.steps_per_epoch * schedule.epochs
        self._views_per_image = schedule.views_per_image
        self._rows = [EndlessRow(everything, seed, "all")]
        self._turns = None
        if schedule.sampling == "balanced":
            classes = labels.unique().tolist()
            self._rows = [
                EndlessRow(torch.nonzero(labels == label).flatten(), seed, f"class {label}")
                for label in classes
            ]
            self._turns = EndlessRow(torch.arange(len(classes)), seed, "classes")

    def positions(self, step: int) -> Tensor:
        """The images of one step: int64 [B]."""
        (start, stop), repeats = self._draws(step), self._views_per_image
        first = start // repeats
        shown = self._between(first, -(-stop // repeats)).repeat_interleave(repeats)
        return shown[start - first * repeats : stop - first * repeats]

    def _between(self, start: int, stop: int) -> Tensor:
        """Draws `start` to `stop` - 1, each once."""
        if self._turns is None:
            return self._rows[0].between(start, stop)
        chosen = self._turns.between(start, stop).tolist()
        turns = [number // len(self._rows) for number in range(start, stop)]
        drawn = [
            self._rows[row].between(turn, turn + 1) for row, turn in zip(chosen, turns, strict=True)
        ]
        return torch.cat(drawn)

    def batch_size(self, step: int) -> int:
        start, stop = self._draws(step)
        return stop - start

    def _draws(self, step: int) -> tuple[int, int]:
        epoch, within = divmod(step, self.steps_per_epoch)
        first = epoch * self.draws_per_epoch
        start = within * self.draws_per_epoch // self.steps_per_epoch
        stop = (within + 1) * self.draws_per_epoch // self.steps_per_epoch
        return first + start, first + stop


class EndlessRow:
    """Fresh shuffles of the same members, one after the other, addressable at any place."""

    def __init__(self, members: Tensor, seed: int, purpose: str) -> None:
        self._members = members
        self._seed = seed
        self._purpose = purpose
        self._cycle, self._shuffled = -1, members  # the last shuffle made

    def between(self, start: int, stop: int) -> Tensor:
        """The members at places `start` to `stop` - 1."""
        size = len(self._members)
        parts = []
        while start < stop:
            cycle, place = divmod(start, size)
            taken = min(stop - start, size - place)
            parts.append(self._shuffle(cycle)[place : place + taken])
            start += taken
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _shuffle(self, cycle: int) -> Tensor:
        if cycle != self._cycle:
            chance = generator(self._seed, self._purpose, cycle)
            order = torch.randperm(len(self._members), generator=chance)
            self._cycle, self._shuffled = cycle, self._members[order]
        return self._shuffled
