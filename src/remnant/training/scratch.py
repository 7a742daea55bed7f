"""Images that are computed once and read many times: in memory if few, else in a scratch file.

The file has no name: it is gone with the last who reads it, or with the process, however that ends.
It is read and written, not mapped, so that its pages do not count as memory of the process.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from remnant.images import ArrayImages, Images, Shape, resized_crops

HELD_BYTES = 1 << 28  # of images; more go to a file


class ScratchFile:
    """A file without a name, in a folder or where temporary files go."""

    def __init__(self, folder: Path | None) -> None:
        where = folder if folder is not None and folder.is_dir() else None
        self.handle, name = tempfile.mkstemp(prefix=".scratch.", dir=where)
        os.unlink(name)
        weakref.finalize(self, os.close, self.handle)

    def write(self, content: memoryview, place: int) -> None:
        while len(content):
            written = os.pwrite(self.handle, content, place)
            content, place = content[written:], place + written

    def read_into(self, room: memoryview, place: int) -> None:
        while len(room):
            count = os.preadv(self.handle, [room], place)
            assert count > 0, "a scratch file is read only where it was written"
            room, place = room[count:], place + count


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
        rows = chosen.numpy().reshape(len(positions), size)
        for row, place in zip(rows, self.places[positions].tolist(), strict=True):
            self.file.read_into(row.data, place * size)
        return chosen if draws is None else resized_crops(chosen, draws, self.shape[:2])

    def select(self, positions: Tensor) -> ScratchImages:
        return ScratchImages(self.file, self.shape, self.places[positions])


def hold_images(batches: Iterable[Tensor], count: int, shape: Shape, folder: Path | None) -> Images:
    """`count` images that come in batches, uint8 [b, H, W, C], to be read in any order."""
    if count * prod(shape) <= HELD_BYTES:
        return ArrayImages(torch.cat([*batches]))
    file, done = ScratchFile(folder), 0
    for batch in batches:
        file.write(batch.contiguous().numpy().reshape(-1).data, done * prod(shape))
        done += len(batch)
    assert done == count, f"{count} images were promised, {done} came"
    return ScratchImages(file, shape, torch.arange(count))
