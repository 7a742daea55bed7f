"""From a phase's image sets to the batches of its steps, on the training device.

The global batch of a step, its augmentation and every number a loss draws depend on seed and step
alone; a process takes its rows of it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor

from remnant.augment import AugmentConfig, train_views
from remnant.contracts import Batch, ImageSet, Phase, derive_seed, generator
from remnant.training.sampling import Sampler

_BATCHES_AHEAD = 3  # of lazily decoded images


@dataclass(frozen=True)
class Look:
    """How images become views: fixed for a run."""

    augment: AugmentConfig
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class GlobalBatch:
    """One step's images before augmentation, all rows of all processes."""

    images: Tensor  # uint8 [G, H, W, C]
    labels: Tensor
    ids: Tensor
    is_replay: Tensor
    is_known: Tensor | None


class Feeder:
    """The batches of one phase."""

    def __init__(self, phase: Phase, look: Look, seed: int, device: torch.device) -> None:
        self._sets = [phase.data] if phase.replay is None else [phase.data, phase.replay]
        labels = torch.cat([part.labels for part in self._sets])
        self.sampler = Sampler(
            labels, len(phase.data), phase.schedule, derive_seed(seed, "sampling")
        )
        self._partial_view_ratio = phase.partial_view_ratio
        self._look = look
        self._seed = seed
        self._device = device

    def batches(
        self, steps: range, parts: range, num_parts: int
    ) -> Generator[list[Batch], None, None]:
        """For every step: the given parts of the global batch, in order."""
        with closing(self._read_ahead(steps)) as read:
            for step, whole in zip(steps, read, strict=True):
                bounds = [part * len(whole.labels) // num_parts for part in (*parts, parts.stop)]
                yield [self._make(whole, step, slice(low, high)) for low, high in pairwise(bounds)]

    def _read_ahead(self, steps: range) -> Generator[GlobalBatch, None, None]:
        if not any(part.images.is_lazy for part in self._sets):
            yield from map(self._read, steps)
            return
        with ThreadPoolExecutor(1, thread_name_prefix="remnant-feed") as pool:
            waiting: list[Future[GlobalBatch]] = []
            try:
                for step in steps:
                    waiting.append(pool.submit(self._read, step))
                    if len(waiting) > _BATCHES_AHEAD:
                        yield waiting.pop(0).result()
                while waiting:
                    yield waiting.pop(0).result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _read(self, step: int) -> GlobalBatch:
        positions = self.sampler.positions(step)
        size = len(positions)
        known = known_patches(self._sets, positions)
        if known is not None and self._partial_view_ratio < 1:
            chance = self._draw(step, slice(None), size, "partial view")
            known[chance >= self._partial_view_ratio] = True
        draws = None
        if self._look.augment.crops_on_read:
            draws = self._draw(step, slice(None), size, "crop", 4)
        return read_rows(self._sets, positions, known, draws)

    def _make(self, whole: GlobalBatch, step: int, rows: slice) -> Batch:
        size = len(whole.labels)
        move = partial(torch.Tensor.to, device=self._device, non_blocking=True)
        known = None if whole.is_known is None else move(whole.is_known[rows])
        draws = move(self._draw(step, rows, size, "augment", 3))
        views, known = train_views(
            move(whole.images[rows]),
            known,
            draws,
            self._look.augment,
            self._look.mean,
            self._look.std,
        )
        return Batch(
            views=views,
            labels=move(whole.labels[rows]),
            is_replay=move(whole.is_replay[rows]),
            is_known=known,
            ids=whole.ids[rows],
            step=step,
            num_steps=self.sampler.num_steps,
            draw=lambda name, *shape: move(self._draw(step, rows, size, f"loss {name}", *shape)),
        )

    def _draw(self, step: int, rows: slice, size: int, name: str, *shape: int) -> Tensor:
        return torch.rand(size, *shape, generator=generator(self._seed, name, step))[rows]


def known_patches(sets: list[ImageSet], positions: Tensor) -> Tensor | None:
    """Which patches are known at `positions` of the joined sets; None where all always are."""
    grid = next((part.is_known.shape[1:] for part in sets if part.is_known is not None), None)
    if grid is None:
        return None
    known = torch.ones(len(positions), *grid, dtype=torch.bool)
    for part, rows, places in _split(sets, positions):
        if part.is_known is not None:
            known[rows] = part.is_known[places]
    return known


def read_rows(
    sets: list[ImageSet], positions: Tensor, known: Tensor | None, draws: Tensor | None
) -> GlobalBatch:
    """Rows of several sets as if they stood one after the other.

    Images of which only some patches count are read as they are: a crop would tear the patches.
    """
    size = len(positions)
    images = torch.empty(size, *sets[0].images.shape, dtype=torch.uint8)
    labels = torch.empty(size, dtype=torch.int64)
    ids = torch.empty(size, dtype=torch.int64)
    is_replay = torch.zeros(size, dtype=torch.bool)
    is_whole = torch.ones(size, dtype=torch.bool) if known is None else known.flatten(1).all(1)
    for part, rows, places in _split(sets, positions):
        labels[rows], ids[rows] = part.labels[places], part.ids[places]
        is_replay[rows] = part is not sets[0]
        if draws is None:
            images[rows] = part.images.read(places)
            continue
        whole, torn = is_whole[rows], ~is_whole[rows]
        images[rows[whole]] = part.images.read(places[whole], draws[rows[whole]])
        images[rows[torn]] = part.images.read(places[torn])
    return GlobalBatch(images, labels, ids, is_replay, known)


def _split(sets: list[ImageSet], positions: Tensor) -> Iterator[tuple[ImageSet, Tensor, Tensor]]:
    """For each set: the rows of the batch that come from it, and their places in it."""
    first = 0
    for part in sets:
        rows = torch.nonzero((positions >= first) & (positions < first + len(part))).flatten()
        if len(rows):
            yield part, rows, positions[rows] - first
        first += len(part)
