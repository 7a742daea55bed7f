"""Images that stay in their files until they are read, and small ones brought into memory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from remnant.data.decode import decode_file
from remnant.errors import InputError
from remnant.images import ArrayImages, Images, resized_crops

# What is small enough to be kept in memory, decoded; the rest is decoded whenever it is read.
MAX_IN_MEMORY_SIZE = 64  # px, of an image
MAX_IN_MEMORY_BYTES = 2 << 30  # of a data set
_CHUNK = 1024  # images decoded at a time while a set is brought into memory
_NAMED = 20  # images that cannot be read; of more, the number is given


@dataclass(frozen=True)
class PathTable:
    """Many paths below one folder, packed: a million Path objects would take half a gigabyte."""

    folder: Path
    names: bytes  # all of them, end to end
    ends: np.ndarray  # int64 [N]; where each name ends

    @classmethod
    def build(cls, folder: Path, names: Iterable[str]) -> PathTable:
        packed = [os.fsencode(name) for name in names]
        ends = np.cumsum([len(name) for name in packed], dtype=np.int64)
        return cls(folder, b"".join(packed), ends)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> Path:
        return self.folder / self.name(index)

    def name(self, index: int) -> str:
        """Relative to the folder."""
        start = int(self.ends[index - 1]) if index > 0 else 0
        return os.fsdecode(self.names[start : int(self.ends[index])])


@dataclass(frozen=True)
class FileImages:
    """Square RGB images decoded when read, by threads (Pillow lets them run at once).

    Nothing decoded is kept, and a subset shares the paths of the whole.
    """

    paths: PathTable
    rows: Tensor  # int64 [N]; which of the paths
    size: int
    workers: int
    is_lazy: bool = field(default=True, init=False)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.size, self.size, 3

    def __len__(self) -> int:
        return len(self.rows)

    def read(self, positions: Tensor, draws: Tensor | None = None) -> Tensor:
        """See `Images.read`.

        Raises:
            InputError: A file cannot be decoded; the message names it.
        """
        rows = self.rows[positions].tolist()
        boxes = [None] * len(rows) if draws is None else draws.tolist()
        images = np.empty((len(rows), *self.shape), np.uint8)

        def decode(index: int) -> None:
            images[index] = decode_file(self.paths[rows[index]], self.size, boxes[index])

        if min(self.workers, len(rows)) <= 1:
            for index in range(len(rows)):
                decode(index)
        else:
            # Threads end with the call, so that none outlives a run or is lost by a fork.
            with ThreadPoolExecutor(min(self.workers, len(rows))) as pool:
                for _ in pool.map(decode, range(len(rows))):
                    pass
        return torch.from_numpy(images)

    def select(self, positions: Tensor) -> FileImages:
        return FileImages(self.paths, self.rows[positions], self.size, self.workers)


@dataclass(frozen=True)
class ResizedImages:
    """Small images in memory, enlarged when read: held at the large size they would not fit."""

    base: ArrayImages
    size: int
    is_lazy: bool = field(default=True, init=False)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.size, self.size, self.base.shape[2]

    def __len__(self) -> int:
        return len(self.base)

    def read(self, positions: Tensor, draws: Tensor | None = None) -> Tensor:
        chosen = self.base.array[positions]
        if draws is None:
            return resize_images(chosen, self.size)
        return resized_crops(chosen, draws, self.shape[:2])

    def select(self, positions: Tensor) -> ResizedImages:
        return ResizedImages(self.base.select(positions), self.size)


def settle(images: Images, size: int) -> Images:
    """Images of side `size`: in memory where small, else read from files or enlarged on demand."""
    num_bytes = len(images) * size * size * 3
    fits = size <= MAX_IN_MEMORY_SIZE and num_bytes <= MAX_IN_MEMORY_BYTES
    has_size = images.shape[:2] == (size, size)
    if not isinstance(images, ArrayImages):
        assert has_size, "a source gives arrays, or images of the size that it was opened with"
        return _read_all(images) if fits else images
    if has_size:
        return images
    return ArrayImages(resize_images(images.array, size)) if fits else ResizedImages(images, size)


def resize_images(images: Tensor, size: int) -> Tensor:
    """uint8 [N, H, W, 3] -> uint8 [N, size, size, 3], bilinear."""
    resized = torch.empty(len(images), size, size, images.shape[3], dtype=torch.uint8)
    for index, image in enumerate(images):
        picture = Image.fromarray(image.numpy())
        pixels = picture.resize((size, size), Image.Resampling.BILINEAR)
        resized[index] = torch.from_numpy(np.array(pixels))
    return resized


def find_unreadable(images: Images, positions: Tensor) -> list[str]:
    """A sentence for each image that cannot be read."""
    problems = []
    for one in positions.split(1):
        try:
            images.read(one)
        except InputError as error:
            problems.append(str(error))
    return problems


def refuse_unreadable(problems: list[str]) -> None:
    """Raise an InputError with the first of them, if there are any."""
    if problems:
        more = len(problems) - _NAMED
        raise InputError(" ".join(problems[:_NAMED] + [f"{more:,} more."] * (more > 0)))


def _read_all(images: Images) -> ArrayImages:
    """All images; if some cannot be read, the error has a sentence for each of them."""
    pixels = torch.empty(len(images), *images.shape, dtype=torch.uint8)
    problems: list[str] = []
    for positions in torch.arange(len(images)).split(_CHUNK):
        try:
            pixels[positions] = images.read(positions)
        except InputError as error:  # of a disk, it may not come again
            problems += find_unreadable(images, positions) or [str(error)]
    refuse_unreadable(problems)
    return ArrayImages(pixels)
