"""Long rows of bytes that need not be in memory: in pieces, some of them in a scratch file.

A scratch file has no name: it is gone with the last who reads it, or with the process, however that
ends. It is read and written, not mapped, so that its pages do not count as memory of the process.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

HELD_BYTES = 1 << 28  # of images or payloads in memory; more go to a file
_CHUNK_BYTES = 1 << 20


class ScratchFile:
    """A file without a name, in a folder or, where that cannot be, where temporary files go."""

    def __init__(self, folder: Path | None) -> None:
        try:
            self.handle, name = tempfile.mkstemp(prefix=".scratch.", dir=folder)
        except OSError:
            if folder is None:
                raise
            self.handle, name = tempfile.mkstemp(prefix=".scratch.")
        os.unlink(name)
        self._end, self._lock = 0, threading.Lock()
        weakref.finalize(self, os.close, self.handle)

    def __reduce__(self) -> tuple[Any, ...]:
        return ScratchFile, (None,)  # a copy is another file; what is `Filed` copies its own bytes

    def append(self, content: bytes) -> Filed:
        place = self._reserve(len(content))
        self.write(memoryview(content), place)
        return Filed(self, place, len(content))

    def append_from(self, source: BinaryIO, size: int) -> Filed:
        """The next `size` bytes of an open file, or as many as it has."""
        place, done = self._reserve(size), 0
        while done < size and (content := source.read(min(size - done, _CHUNK_BYTES))):
            self.write(memoryview(content), place + done)
            done += len(content)
        return Filed(self, place, done)

    def _reserve(self, size: int) -> int:
        with self._lock:
            place, self._end = self._end, self._end + size
        return place

    def write(self, content: memoryview, place: int) -> None:
        while len(content):
            written = os.pwrite(self.handle, content, place)
            content, place = content[written:], place + written

    def read_into(self, room: memoryview, place: int) -> None:
        while len(room):
            count = os.preadv(self.handle, [room], place)
            assert count > 0, "a scratch file is read only where it was written"
            room, place = room[count:], place + count


@dataclass(frozen=True, slots=True)
class Filed:
    """Bytes of a scratch file, read whenever they are asked for."""

    file: ScratchFile
    place: int
    size: int

    def __len__(self) -> int:
        return self.size

    def __bytes__(self) -> bytes:
        room = bytearray(self.size)
        self.file.read_into(memoryview(room), self.place)
        return bytes(room)

    def __reduce__(self) -> tuple[Any, ...]:
        return bytes, (bytes(self),)

    def part(self, start: int, size: int) -> Filed:
        return Filed(self.file, self.place + start, size)


Piece = bytes | Filed


class Row:
    """Pieces one after the other: what a uint8 array of one axis is, but never joined."""

    dtype: np.dtype[Any] = np.dtype(np.uint8)
    ndim = 1

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self.size = self.nbytes = sum(map(len, pieces))

    @property
    def shape(self) -> tuple[int]:
        return (self.size,)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.frombuffer(self.tobytes(), dtype=np.uint8).astype(dtype or np.uint8, copy=False)

    def copy(self) -> Row:
        return self  # its pieces never change

    def tobytes(self) -> bytes:
        return b"".join(map(bytes, self.pieces))

    def as_array(self) -> np.ndarray:
        """Itself, for what takes arrays and only asks for what a row has."""
        return cast("np.ndarray", self)

    def chunks(self) -> Iterator[bytes]:
        """All bytes, about a megabyte at a time."""
        gathered, size = [], 0
        for some in _bites(self.pieces):
            gathered.append(some)
            size += len(some)
            if size >= _CHUNK_BYTES:
                yield b"".join(gathered)
                gathered, size = [], 0
        yield b"".join(gathered)


def _bites(pieces: Iterable[Piece]) -> Iterator[bytes]:
    for piece in pieces:
        if isinstance(piece, bytes):
            yield piece
        else:
            for start in range(0, len(piece), _CHUNK_BYTES):
                yield bytes(piece.part(start, min(_CHUNK_BYTES, len(piece) - start)))


def parts_of(array: np.ndarray | Row) -> Iterator[np.ndarray]:
    """Arrays that hold the bytes of an array in order, none of them empty."""
    if isinstance(array, Row):
        yield from (np.frombuffer(chunk, dtype=np.uint8) for chunk in array.chunks() if chunk)
    elif array.size:
        yield np.asarray(array, order="C")  # ascontiguousarray makes a scalar a row


def cut(row: np.ndarray | Row, sizes: Sequence[int]) -> list[Piece]:
    """A row in pieces of these sizes, which are all of it; what is in a file stays there."""
    ends = accumulate(sizes)
    if isinstance(row, Row):
        if [*map(len, row.pieces)] == [*sizes]:
            return list(row.pieces)
        if len(row.pieces) == 1 and isinstance(whole := row.pieces[0], Filed):
            return [whole.part(end - size, size) for size, end in zip(sizes, ends, strict=True)]
    content = np.asarray(row).data
    return [content[end - size : end].tobytes() for size, end in zip(sizes, ends, strict=True)]
