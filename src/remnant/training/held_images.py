"""Images that are computed once and read many times: in memory if few, else in a scratch file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from remnant import long_rows
from remnant.images import ArrayImages, Images, Shape, resized_crops
from remnant.long_rows import ScratchFile


@dataclass(frozen=True)
class ScratchImages:
    """Images in a scratch file, one after the other."""

    file: ScratchFile
    shape: Shape
    places: Tensor  # int64 [N]: which image of the file each is
    is_lazy: bool = field(default=True, init=False)

    def __len__(self) -> int:
        return len(self.places)

    def read(self, positions: Tensor, draws: Tensor | None = None) -> Tensor:
        """See `Images.read`."""
        chosen = torch.empty(len(positions), *self.shape, dtype=torch.uint8)
        size = prod(self.shape)
        pixels = chosen.numpy().reshape(len(positions), size)
        for row, place in zip(pixels, self.places[positions].tolist(), strict=True):
            self.file.read_into(row.data, place * size)
        return chosen if draws is None else resized_crops(chosen, draws, self.shape[:2])

    def select(self, positions: Tensor) -> ScratchImages:
        return ScratchImages(self.file, self.shape, self.places[positions])


def hold_images(batches: Iterable[Tensor], count: int, shape: Shape, folder: Path | None) -> Images:
    """`count` images that come in batches, uint8 [b, H, W, C], to be read in any order."""
    if count * prod(shape) <= long_rows.HELD_BYTES:
        return ArrayImages(torch.cat([*batches]))
    file, done = ScratchFile(folder), 0
    for batch in batches:
        file.write(batch.contiguous().numpy().reshape(-1).data, done * prod(shape))
        done += len(batch)
    assert done == count, f"{count} images were promised, {done} came"
    return ScratchImages(file, shape, torch.arange(count))
