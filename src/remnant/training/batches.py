"""From a phase's image sets to the batches of its steps, on the training device.

The global batch of a step, its augmentation and every number a loss draws depend on seed and step
alone; a process takes its rows of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor

from remnant.images import ImageSet
from remnant.phases import Batch, Phase
from remnant.randomness import derive_seed, generator
from remnant.training.sampling import Sampler
from remnant.views.augment import AugmentConfig, train_views

_BATCHES_AHEAD = 3  # where reading takes long, or copying does


@dataclass(frozen=True)
class Preprocessing:
    """How images become views: fixed for a run."""

    augment: AugmentConfig
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class StepImages:
    """Images of one step before augmentation."""

    images: Tensor  # uint8 [n, H, W, C]
    labels: Tensor
    ids: Tensor
    is_replay: Tensor
    is_known: Tensor | None
    is_aligned: Tensor | None = None  # bool [n]: whole, but cropped like parts
    twins: Tensor | None = None  # uint8 [n, H, W, C]: images shown beside these

    def pin(self) -> StepImages:
        """The same in memory that a device can copy from while it computes."""
        return StepImages(
            self.images.pin_memory(),
            self.labels.pin_memory(),
            self.ids,  # stay on the CPU
            self.is_replay.pin_memory(),
            None if self.is_known is None else self.is_known.pin_memory(),
            None if self.is_aligned is None else self.is_aligned.pin_memory(),
            None if self.twins is None else self.twins.pin_memory(),
        )


class Feeder:
    """The batches of one phase.

    Args:
        has_pinned_memory: Rows are read ahead, and put where `device` copies from unattended.
    """

    def __init__(
        self,
        phase: Phase,
        look: Preprocessing,
        seed: int,
        device: torch.device,
        *,
        has_pinned_memory: bool = False,
    ) -> None:
        drawn = [phase.data] if phase.replay is None else [phase.data, phase.replay]
        labels = torch.cat([part.labels for part in drawn])
        self._labels, self._ids = labels, torch.cat([part.ids for part in drawn])
        assert phase.twins is None or len(phase.twins) == len(phase.data), "one for each image"
        # Twins, behind all that is drawn, are other looks of the images of the first set.
        self._sets = drawn if phase.twins is None else [*drawn, phase.twins]
        self._num_new, self._first_twin = len(phase.data), len(labels)
        self._twin_ratio = 0.0 if phase.twins is None else phase.twin_ratio
        self._shows_pairs = phase.shows_pairs
        self._aligns_new = phase.aligns_new
        self.sampler = Sampler(
            labels, len(phase.data), phase.schedule, derive_seed(seed, "sampling")
        )
        self._num_classes = int(labels.max()) + 1 if phase.schedule.corrects_prior else None
        self._partial_view_ratio = phase.partial_view_ratio
        self._is_whole_step = phase.is_whole_step
        self._look = look
        self._seed = seed
        self._device = device
        self._has_pinned_memory = has_pinned_memory

    def batches(
        self, steps: range, parts: range, num_parts: int
    ) -> Generator[list[Batch], None, None]:
        """For every step: the given parts of the global batch, in order."""
        bounds = partial(self._bounds, parts=parts, num_parts=num_parts)
        with closing(self._read_ahead(steps, bounds)) as read:
            for step, rows in zip(steps, read, strict=True):
                first = bounds(step)[0]
                yield [
                    self._make(rows, step, first, slice(low, high))
                    for low, high in pairwise(bounds(step))
                ]

    def _bounds(self, step: int, parts: range, num_parts: int) -> list[int]:
        """Where each of the parts begins in the global batch, and where the last one ends."""
        size = self.sampler.batch_size(step)
        return [part * size // num_parts for part in (*parts, parts.stop)]

    def _read_ahead(
        self, steps: range, bounds: Callable[[int], list[int]]
    ) -> Generator[StepImages, None, None]:
        def read(step: int) -> StepImages:
            rows = self._read(step, slice(bounds(step)[0], bounds(step)[-1]))
            return rows.pin() if self._has_pinned_memory else rows

        is_lazy = any(part.images.is_lazy for part in self._sets)
        if not is_lazy and not self._has_pinned_memory:
            yield from map(read, steps)
            return
        with ThreadPoolExecutor(1, thread_name_prefix="remnant-feed") as pool:
            waiting: list[Future[StepImages]] = []
            try:
                for step in steps:
                    waiting.append(pool.submit(read, step))
                    if len(waiting) > _BATCHES_AHEAD:
                        yield waiting.pop(0).result()
                while waiting:
                    yield waiting.pop(0).result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _read(self, step: int, rows: slice) -> StepImages:
        """Some rows of a step's global batch: no process decodes what another one trains on."""
        positions = self.sampler.positions(step)[rows]
        is_new, is_twin = positions < self._num_new, self._is_twin(step, rows, positions)
        is_whole, aligned = None, None
        if any(part.is_known is not None for part in self._sets):
            is_whole = self._is_shown_whole(step, rows)
            if self._aligns_new:
                aligned = is_new & ~is_whole
                is_twin &= is_whole
        draws = None
        if self._look.augment.crops_on_read:
            draws = self._draw(step, rows, "crop", 4)
        shown = positions
        if not self._shows_pairs:
            shown = torch.where(is_twin, positions + self._first_twin, positions)
        known = known_patches(self._sets, shown)
        if known is not None and is_whole is not None:
            known |= is_whole[:, None, None]
        images, beside = read_images(self._sets, shown, known, draws, aligned), None
        if self._shows_pairs:
            changed = torch.nonzero(is_twin).flatten()
            cropped = None if draws is None else draws[changed]
            beside = images.clone()
            beside[changed] = self._sets[-1].images.read(positions[changed], cropped)
        return StepImages(
            images=images,
            labels=self._labels[positions],
            ids=self._ids[positions],
            is_replay=~is_new,
            is_known=known,
            is_aligned=aligned,
            twins=beside,
        )

    def _is_twin(self, step: int, rows: slice, positions: Tensor) -> Tensor:
        """Which rows are new images that are shown as the memory would give them back."""
        is_twin = (positions < self._num_new) & (self._twin_ratio > 0)
        if 0 < self._twin_ratio < 1:
            is_twin &= self._draw(step, rows, "twin") < self._twin_ratio
        return is_twin

    def _is_shown_whole(self, step: int, rows: slice) -> Tensor:
        """Which rows count as whole whatever is known of them: bool [n]."""
        chance = self._draw(step, rows, "partial view")
        if self._is_whole_step is not None and self._is_whole_step(step, self.sampler.num_steps):
            return torch.ones_like(chance, dtype=torch.bool)
        return chance >= self._partial_view_ratio

    def _make(self, read: StepImages, step: int, first: int, rows: slice) -> Batch:
        """A batch of the global `rows`, out of what was read from row `first` on."""
        here = slice(rows.start - first, rows.stop - first)
        move = partial(torch.Tensor.to, device=self._device, non_blocking=True)
        known = None if read.is_known is None else move(read.is_known[here])
        aligned = None if read.is_aligned is None else move(read.is_aligned[here])
        draws = move(self._draw(step, rows, "augment", self._look.augment.num_draws))
        look = self._look

        def view(images: Tensor) -> tuple[Tensor, Tensor | None]:
            augment = look.augment
            return train_views(
                move(images[here]), known, draws, augment, look.mean, look.std, aligned
            )

        views, shown = view(read.images)
        return Batch(
            views=views,
            twin_views=None if read.twins is None else view(read.twins)[0],
            labels=move(read.labels[here]),
            is_replay=move(read.is_replay[here]),
            is_known=shown,
            ids=read.ids[here],
            step=step,
            num_steps=self.sampler.num_steps,
            draw=lambda name, *shape: move(self._draw(step, rows, f"loss {name}", *shape)),
            log_prior=self._log_prior(step),
        )

    def _log_prior(self, step: int) -> Tensor | None:
        """The log of each class's share of the draws; 0 for classes that are not drawn."""
        if self._num_classes is None:
            return None
        shares = self.sampler.class_shares(step, self._num_classes)
        return torch.where(shares > 0, shares, 1.0).log().to(self._device)

    def _draw(self, step: int, rows: slice, name: str, *shape: int) -> Tensor:
        size = self.sampler.batch_size(step)
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


def read_images(
    sets: list[ImageSet],
    positions: Tensor,
    known: Tensor | None,
    draws: Tensor | None,
    aligned: Tensor | None,
) -> Tensor:
    """Images uint8 [n, H, W, C] of several sets as if they stood one after the other.

    Those of which only some patches count are read as they are: a crop would tear the patches.
    """
    size = len(positions)
    images = torch.empty(size, *sets[0].images.shape, dtype=torch.uint8)
    is_whole = torch.ones(size, dtype=torch.bool) if known is None else known.flatten(1).all(1)
    if aligned is not None:
        is_whole &= ~aligned
    for part, rows, places in _split(sets, positions):
        if draws is None:
            images[rows] = part.images.read(places)
            continue
        whole, torn = is_whole[rows], ~is_whole[rows]
        images[rows[whole]] = part.images.read(places[whole], draws[rows[whole]])
        images[rows[torn]] = part.images.read(places[torn])
    return images


def _split(sets: list[ImageSet], positions: Tensor) -> Iterator[tuple[ImageSet, Tensor, Tensor]]:
    """For each set: the rows of the batch that come from it, and their places in it."""
    first = 0
    for part in sets:
        rows = torch.nonzero((positions >= first) & (positions < first + len(part))).flatten()
        if len(rows):
            yield part, rows, positions[rows] - first
        first += len(part)
