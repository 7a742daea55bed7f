"""From exemplars back to images that a method can train on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from remnant.cores import usable_cores
from remnant.errors import InputError
from remnant.images import ArrayImages, ImageSet, Shape, patches_to_pixels, resized_crop
from remnant.memory.codecs.codec import Codec, Exemplar
from remnant.memory.memory_file import StoredClass

MAX_DECODED_BYTES = 1 << 30  # a memory of more is decoded whenever it is read
_THREADS = min(4, usable_cores())
_TOGETHER_BYTES = 1 << 22  # of decoded images; some codecs are faster at many than at one
_THREADED_BYTES = 96 * 96 * 3  # smaller images spend most of their time outside Pillow's decoders


@dataclass(frozen=True)
class Item:
    """One exemplar with its class and rank, which an error names if it cannot be decoded."""

    exemplar: Exemplar
    class_name: str
    rank: int


@dataclass(frozen=True)
class Decoder:
    """A codec whose images are made whole: unknown pixels get one colour.

    With `fill` None that colour is the mean of each image's own known pixels.
    """

    codec: Codec
    fill: Sequence[int] | None

    def decode(self, item: Item) -> tuple[np.ndarray, np.ndarray | None]:
        """The image, uint8 [H, W, C], and its known patches, bool [GH, GW], if not all are.

        Raises:
            InputError: The payload is impossible; the message names class and rank.
        """
        with _naming(item):
            return self._finish([self.codec.decode(item.exemplar)])[0]

    def decode_many(self, items: Sequence[Item]) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """What `decode` gives for each."""
        try:
            decoded = self.codec.decode_many([item.exemplar for item in items])
            return self._finish(decoded)
        except InputError:
            return [self.decode(item) for item in items]  # names the one that is impossible

    def _finish(
        self, decoded: Sequence[tuple[np.ndarray, np.ndarray | None]]
    ) -> list[tuple[np.ndarray, np.ndarray | None]]:
        for image, _ in decoded:
            if image.shape != self.codec.image_shape or image.dtype != np.uint8:
                raise InputError(f"it gives {image.dtype} of shape {image.shape}.")
        finished, partial = (
            list(decoded),
            [i for i, one in enumerate(decoded) if one[1] is not None],
        )
        if partial:
            known = [one for _, one in decoded if one is not None]
            images = np.stack([decoded[index][0] for index in partial])
            filled = _fill_unknown(images, np.stack(known), self.fill)
            for index, image, is_known in zip(partial, filled, known, strict=True):
                finished[index] = image, is_known
        return finished

    def known_patches(self, item: Item) -> np.ndarray | None:
        with _naming(item):
            return self.codec.known_patches(item.exemplar)


@dataclass(frozen=True)
class StoredImages:
    """Exemplars that are decoded whenever they are read; nothing decoded is kept."""

    decoder: Decoder
    items: Sequence[Item]
    is_lazy: bool = field(default=True, init=False)

    @property
    def shape(self) -> Shape:
        return self.decoder.codec.image_shape

    def __len__(self) -> int:
        return len(self.items)

    def read(self, positions: Tensor, draws: Tensor | None = None) -> Tensor:
        """See `Images.read`.

        Raises:
            InputError: A payload is impossible; the message names class and rank.
        """
        images = np.empty((len(positions), *self.shape), dtype=np.uint8)
        rows, boxes = positions.tolist(), None if draws is None else draws.tolist()

        def decode(some: range) -> None:
            decoded = self.decoder.decode_many([self.items[rows[index]] for index in some])
            for index, (image, _) in zip(some, decoded, strict=True):
                if boxes is not None:
                    image = resized_crop(image, boxes[index], self.shape[:2])
                images[index] = image

        _for_each(decode, len(rows), self.decoder.codec.image_bytes)
        return torch.from_numpy(images)

    def select(self, positions: Tensor) -> StoredImages:
        return StoredImages(self.decoder, [self.items[row] for row in positions.tolist()])


def decode_classes(
    codec: Codec, classes: Mapping[int, StoredClass], fill: Sequence[int] | None
) -> ImageSet | None:
    """All exemplars in label and rank order, unknown pixels in one colour; None if there are none.

    With `fill` None that colour is the mean of each image's own known pixels. A small memory is
    decoded at once, a large one whenever it is read.
    """
    labels = [label for label in sorted(classes) for _ in classes[label].exemplars]
    if not labels:
        return None
    items = [
        Item(exemplar, classes[label].name, rank)
        for label in sorted(classes)
        for rank, exemplar in enumerate(classes[label].exemplars)
    ]
    decoder = Decoder(codec, fill)
    if len(items) * codec.image_bytes <= MAX_DECODED_BYTES:
        images, known = _decode_all(decoder, items)
    else:
        images = StoredImages(decoder, items)
        known = map(decoder.known_patches, items)
    return ImageSet(
        images,
        torch.tensor(labels, dtype=torch.int64),
        torch.arange(len(items)),
        None if codec.grid is None else _stack(known, codec.grid),
    )


def _decode_all(
    decoder: Decoder, items: Sequence[Item]
) -> tuple[ArrayImages, list[np.ndarray | None]]:
    pixels = np.empty((len(items), *decoder.codec.image_shape), dtype=np.uint8)
    known: list[np.ndarray | None] = [None] * len(items)

    def decode(some: range) -> None:
        decoded = decoder.decode_many([items[index] for index in some])
        for index, one in zip(some, decoded, strict=True):
            pixels[index], known[index] = one

    _for_each(decode, len(items), decoder.codec.image_bytes)
    return ArrayImages(torch.from_numpy(pixels)), known


def _for_each(work: Callable[[range], None], count: int, image_bytes: int) -> None:
    """Do `work` for 0 to `count` - 1, some at a time; by threads where images are large.

    Threads end with the call, so that none outlives a run or is lost by a fork.
    """
    size = max(1, _TOGETHER_BYTES // image_bytes)
    parts = [range(first, min(first + size, count)) for first in range(0, count, size)]
    if image_bytes < _THREADED_BYTES or len(parts) < 2:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(min(_THREADS, len(parts)), thread_name_prefix="remnant-decode") as pool:
        for _ in pool.map(work, parts):
            pass


def _stack(known: Iterable[np.ndarray | None], grid: tuple[int, int]) -> Tensor:
    """Known patches of all images, bool [N, GH, GW]."""
    whole = np.ones(grid, dtype=bool)
    return torch.from_numpy(np.stack([whole if one is None else one for one in known]))


@contextmanager
def _naming(item: Item) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InputError(
            f"exemplar {item.rank} of class {item.class_name!r} cannot be decoded: {error}"
        ) from None


def _fill_unknown(
    images: np.ndarray, is_known: np.ndarray, fill: Sequence[int] | None
) -> np.ndarray:
    """Images [N, H, W, C] with a colour in place of patches that are not known [N, GH, GW]."""
    is_unknown = ~patches_to_pixels(is_known, images.shape[1:3])
    if fill is None:  # unknown pixels are 0, so the sum is that of the known ones
        # Rows first: twenty times as fast as both axes in one sum.
        totals = images.sum(axis=1, dtype=np.uint32).sum(axis=1)  # [N, C]
        colours = totals / (~is_unknown).sum(axis=(1, 2))[:, None]
    else:
        colours = np.broadcast_to(np.asarray(fill), (len(images), images.shape[3]))
    levels = colours.round().astype(np.uint8)[:, None, None]
    return np.where(is_unknown[..., None], levels, images)
