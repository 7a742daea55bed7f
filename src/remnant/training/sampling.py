"""The images of each step: a pure function of seed and step, so resuming needs no state.

Draws are numbered throughout the phase. With "union" sampling, draw k is element k of an endless
sequence of reshuffles of all images. With "balanced" sampling, the classes take turns in an order
that is shuffled in each round, and each class has an endless sequence of its own. With several
views per image, every draw is repeated that many times.
"""

from __future__ import annotations

import torch
from torch import Tensor

from remnant.phases import Schedule
from remnant.randomness import generator


class Sampler:
    """Positions in the new data followed by the replay, step by step.

    The batches of an epoch differ in size by one image at most: there is no small last batch.
    """

    def __init__(self, labels: Tensor, num_new: int, schedule: Schedule, seed: int) -> None:
        everything = torch.arange(len(labels))
        self.draws_per_epoch = num_new if schedule.steps_from == "new" else len(labels)
        self.steps_per_epoch = max(1, -(-self.draws_per_epoch // schedule.batch_size))
        self.num_steps = self.steps_per_epoch * schedule.epochs
        self._views_per_image = schedule.views_per_image
        self._sequences = [EndlessShuffle(everything, seed, "all")]
        self._turns = None
        if schedule.sampling == "balanced":
            classes = labels.unique().tolist()
            self._sequences = [
                EndlessShuffle(torch.nonzero(labels == label).flatten(), seed, f"class {label}")
                for label in classes
            ]
            self._turns = EndlessShuffle(torch.arange(len(classes)), seed, "classes")

    def positions(self, step: int) -> Tensor:
        """The images of one step: int64 [B]."""
        (start, stop), repeats = self._draws(step), self._views_per_image
        first = start // repeats
        shown = self._between(first, -(-stop // repeats)).repeat_interleave(repeats)
        return shown[start - first * repeats : stop - first * repeats]

    def _between(self, start: int, stop: int) -> Tensor:
        """Draws `start` to `stop` - 1, without repeats for views."""
        if self._turns is None:
            return self._sequences[0].between(start, stop)
        chosen = self._turns.between(start, stop).tolist()
        turns = [number // len(self._sequences) for number in range(start, stop)]
        drawn = [
            self._sequences[index].between(turn, turn + 1)
            for index, turn in zip(chosen, turns, strict=True)
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
