"""Read-only passes over image sets: what methods and evaluation see, shared among processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from remnant.images import Images, ImageSet, Shape
from remnant.randomness import generator
from remnant.training.batches import Preprocessing
from remnant.training.held_images import hold_images
from remnant.training.processes import Processes
from remnant.views.augment import plain_views, to_images

_BATCH_SIZE = 256
_BATCH_PIXELS = _BATCH_SIZE * 64 * 64  # fewer images at a time where they are larger


class ViewReader:
    """The `Reader` that methods are given."""

    def __init__(
        self, processes: Processes, look: Preprocessing, seed: int, scratch: Path | None = None
    ) -> None:
        """`scratch` is a folder for large passing files; None: where temporary files go."""
        self.seed = seed
        self.mean = look.mean
        self.std = look.std
        self._processes = processes
        self.on_images: Callable[[int], None] = lambda _: None  # told how many were just read
        self._scratch = scratch

    def generator(self, *purpose: str | int) -> torch.Generator:
        return generator(self.seed, *purpose)

    def images(self, images: ImageSet) -> Iterator[Tensor]:
        for positions in torch.arange(len(images)).split(_BATCH_SIZE):
            yield images.images.read(positions)

    @torch.no_grad()
    def apply(
        self, function: Callable[[Tensor], Tensor], images: ImageSet, *, mirrored: bool = False
    ) -> Tensor:
        share = -(-len(images) // self._processes.count)  # rows per process, the last ones repeated
        first = self._processes.rank * share
        mine = torch.arange(first, first + share).clamp_(max=len(images) - 1)
        outputs = []
        for positions in mine.split(_batch_size(images)):
            views = self.views(images.images.read(positions))
            with self._processes.autocast():
                output = function(views.flip(3) if mirrored else views)
            outputs.append(output.float() if output.is_floating_point() else output)
            self.on_images(len(positions))
        return self._processes.gather(torch.cat(outputs))[: len(images)].cpu()

    def hold(self, batches: Iterable[Tensor], labels: Tensor, shape: Shape) -> Images:
        return hold_images(batches, len(labels), shape, self._scratch)

    def views(self, images: Tensor) -> Tensor:
        return plain_views(images.to(self._processes.device), self.mean, self.std)

    def to_images(self, views: Tensor) -> Tensor:
        return to_images(views, self.mean, self.std).cpu()


def _batch_size(images: ImageSet) -> int:
    height, width, _ = images.images.shape
    return max(1, min(_BATCH_SIZE, _BATCH_PIXELS // (height * width)))
