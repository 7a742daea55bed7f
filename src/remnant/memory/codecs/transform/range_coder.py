"""A range coder for integers that are mostly small: many streams at once, or one at a time.

Every integer comes with a *level*, the logarithm of its expected size: the scale of a two-sided
exponential distribution is 2 to the power `level / LEVELS_PER_OCTAVE`. All that a decoder does is
integer arithmetic on tables of integers, so that files decode alike on every machine.

Axes: planes of numbers are [P, R, N], R rows (blocks) of N pictures; a picture has S streams.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise, repeat
from math import exp
from typing import NamedTuple

import numpy as np

LEVELS_PER_OCTAVE = 8
MAX_NUMBER = (1 << 15) - 1  # of an escape; no coefficient of an 8-bit picture is larger

BITS = 15
TOTAL = 1 << BITS  # of the frequencies of a table
LARGEST = 20  # magnitude with a symbol of its own
ESCAPE = 2 * LARGEST + 1
_NUM_SYMBOLS = ESCAPE + 1
LOWEST, _HIGHEST = -36, 16  # levels; beyond the highest the low bits are sent as they are
_TABLE_STEP = 2  # levels per table
_NUM_TABLES = (_HIGHEST - LOWEST) // _TABLE_STEP + 1
_MAX_SHIFT = 10
ESCAPE_BITS = 16
_ZERO_WIDTH = 0.6  # half of the interval that a quantiser with a dead zone sends to 0
_SPREAD = 0.03  # share of an octave less, and of an octave more: levels are estimates
FULL, RENEW = 1 << 32, 1 << 24  # range of a new stream; below the second a byte is read


def _tail(magnitude: int, scale: float) -> float:
    """The probability of a magnitude at least as large, from 1 up."""
    scales = ((scale, 1 - 2 * _SPREAD), (scale / 2, _SPREAD), (scale * 2, _SPREAD))
    return sum(share * exp(-(magnitude - 1 + _ZERO_WIDTH) / one) for one, share in scales)


def _frequencies(scale: float) -> list[int]:
    """Counts of the symbols -20 to 20 and the escape; each at least 1, the rest goes to 0."""
    tails = [_tail(magnitude, scale) for magnitude in range(1, LARGEST + 2)]
    shares = [(near - far) / 2 for near, far in pairwise(tails)]
    shares = [*reversed(shares), 0, *shares, tails[-1]]
    counts = [1 + int(share * (TOTAL - _NUM_SYMBOLS)) for share in shares]
    counts[LARGEST] += TOTAL - sum(counts)
    return counts


def _table_scale(table: int) -> float:
    return 2 ** ((LOWEST + table * _TABLE_STEP) / LEVELS_PER_OCTAVE)


_FREQUENCY = np.array([_frequencies(_table_scale(i)) for i in range(_NUM_TABLES)])
_START = _FREQUENCY.cumsum(axis=1) - _FREQUENCY
_SYMBOL = np.stack([np.repeat(np.arange(_NUM_SYMBOLS, dtype=np.uint8), row) for row in _FREQUENCY])
# By level, from the lowest on: which table, after how many bits were taken off.
_ALL_LEVELS = np.arange(LOWEST, _HIGHEST + _MAX_SHIFT * LEVELS_PER_OCTAVE + 1)
_SHIFT_AT = np.maximum(-((_HIGHEST - _ALL_LEVELS) // LEVELS_PER_OCTAVE), 0)
_TABLE_AT = (_ALL_LEVELS - _SHIFT_AT * LEVELS_PER_OCTAVE - LOWEST + 1) // _TABLE_STEP
_FLAT_FREQUENCY, _FLAT_START, _FLAT_SYMBOL = _FREQUENCY.ravel(), _START.ravel(), _SYMBOL.ravel()
# The same for one stream at a time, where Python's own containers are faster.
_SYMBOL_BYTES = [row.tobytes() for row in _SYMBOL]
_SHARES = np.stack([_START, _FREQUENCY], axis=-1).tolist()


class ReadingTables(NamedTuple):
    """What a reader looks up, for the compiled loop."""

    start: np.ndarray  # int64 [tables, symbols]
    share: np.ndarray  # int64 [tables, symbols]
    symbol: np.ndarray  # uint8 [tables, TOTAL]
    table: np.ndarray  # int64, by level from the lowest on
    shift: np.ndarray  # int64, likewise


READING = ReadingTables(_START, _FREQUENCY, _SYMBOL, _TABLE_AT, _SHIFT_AT)


def mean_magnitude(level: int) -> float:
    """What a number of this level is expected to be, its sign left out."""
    scale = 2 ** (level / LEVELS_PER_OCTAVE)
    return exp(-_ZERO_WIDTH / scale) / (1 - exp(-1 / scale))


def _split(levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Table and number of bits sent as they are, for numbers of these levels."""
    places = levels - LOWEST
    return _TABLE_AT.take(places, mode="clip"), _SHIFT_AT.take(places, mode="clip")


class Stream(ABC):
    """Numbers on their way to or from bytes; the same calls in the same order do both."""

    knows_numbers: bool

    @abstractmethod
    def code(self, levels: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Send planes of numbers, int64 [P, R, N], and return them; or receive as many.

        The R rows of a plane are dealt to the S streams of a picture in runs of ceil(R / S).
        """


class Writer(Stream):
    """Collects the numbers of one picture (N = 1) and makes the bytes of its streams."""

    knows_numbers = True

    def __init__(self, num_streams: int) -> None:
        self._parts: list[list[tuple[int, int, int]]] = [[] for _ in range(num_streams)]

    def code(self, levels: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        run = -(-numbers.shape[1] // len(self._parts))
        for index, part in enumerate(self._parts):
            rows = np.s_[:, index * run : (index + 1) * run, 0]
            self._add(part, levels[rows].ravel(), numbers[rows].ravel())
        return numbers

    def _add(
        self, part: list[tuple[int, int, int]], levels: np.ndarray, numbers: np.ndarray
    ) -> None:
        tables, shifts = _split(levels)
        high = numbers >> shifts
        is_escape = np.abs(high) > LARGEST
        symbols = np.where(is_escape, ESCAPE, high + LARGEST)
        starts, shares = _START[tables, symbols].tolist(), _FREQUENCY[tables, symbols].tolist()
        last = 0
        for index in np.flatnonzero(is_escape | (shifts > 0)).tolist():
            part.extend(zip(starts[last : index + 1], shares[last : index + 1], repeat(BITS)))
            if is_escape[index]:
                part.append((int(high[index]) + MAX_NUMBER + 1, 1, ESCAPE_BITS))
            shift = int(shifts[index])
            part.append((int(numbers[index]) & (1 << shift) - 1, 1, shift))
            last = index + 1
        part.extend(zip(starts[last:], shares[last:], repeat(BITS)))

    def streams(self) -> list[bytes]:
        """The bytes of each stream, without zeros at the end: a reader finds zeros there."""
        return [_join(part) for part in self._parts]


def _join(parts: Sequence[tuple[int, int, int]]) -> bytes:
    """Narrow a range by each part in turn; any number in what is left stands for them all."""
    low, width, num_bytes = 0, FULL - 1, 4
    for start, share, bits in parts:
        unit = width >> bits
        low, width = low + unit * start, unit * share
        while width < RENEW:
            low, width, num_bytes = low << 8, width << 8, num_bytes + 1
    free = width.bit_length() - 1  # so many low bits may be chosen freely: as zeros, rounded up
    low = -(-low >> free) << free
    return low.to_bytes(num_bytes).rstrip(b"\0")


class BatchReader(Stream):
    """Reads the streams of many pictures, step by step together."""

    knows_numbers = False

    def __init__(self, streams: Sequence[Sequence[bytes]]) -> None:
        """`streams` are ordered by place in the picture, then by picture."""
        parts = [one for place in streams for one in place]
        self._num_places = len(streams)
        self._bytes = np.frombuffer(b"".join(part + b"\0" for part in parts), dtype=np.uint8)
        lengths = np.array([len(part) for part in parts], dtype=np.int64)
        self._ends = np.cumsum(lengths + 1) - 1  # where a zero stands
        self._next = self._ends - lengths
        self._width = np.full(len(parts), FULL - 1, dtype=np.int64)
        self._code = np.zeros(len(parts), dtype=np.int64)
        for _ in range(4):
            self._shift_in(np.ones(len(parts), dtype=np.int64))

    def code(self, levels: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        return np.stack([self._plane(*_split(one), np.empty_like(numbers[0])) for one in levels])

    def _plane(self, tables: np.ndarray, shifts: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        run = -(-len(numbers) // self._num_places)
        has_shifts = bool(shifts.any())
        for row in range(run):
            wanted = tables[row::run]
            high = self._symbols(wanted.ravel())
            is_escape = high > LARGEST
            if is_escape.any():
                escaped = self._raw(is_escape * ESCAPE_BITS) - (MAX_NUMBER + 1)
                high = np.where(is_escape, escaped, high)
            if has_shifts:
                bits = shifts[row::run].ravel()
                high = (high << bits) + self._raw(bits)
            numbers[row::run] = high.reshape(wanted.shape)
        return numbers

    def _symbols(self, tables: np.ndarray) -> np.ndarray:
        count = len(tables)
        code, unit = self._code[:count], self._width[:count] >> BITS
        places = np.minimum(_divide(code, unit), TOTAL - 1)
        symbols = _FLAT_SYMBOL.take(tables * TOTAL + places).astype(np.int64)
        index = tables * _NUM_SYMBOLS + symbols
        self._narrow(code - unit * _FLAT_START.take(index), unit * _FLAT_FREQUENCY.take(index))
        return symbols - LARGEST

    def _raw(self, bits: np.ndarray) -> np.ndarray:
        count = len(bits)
        code, unit = self._code[:count], self._width[:count] >> bits
        values = np.minimum(_divide(code, unit), (1 << bits) - 1)
        self._narrow(code - unit * values, unit)
        return values

    def _narrow(self, code: np.ndarray, width: np.ndarray) -> None:
        count = len(code)
        self._code[:count] = np.minimum(code, width - 1)  # less only in bytes that no encoder wrote
        self._width[:count] = width
        for _ in range(2):
            is_narrow = (self._width[:count] < RENEW).astype(np.int64)
            if not is_narrow.any():
                return
            self._width[:count] <<= 8 * is_narrow
            self._shift_in(is_narrow)

    def _shift_in(self, wanted: np.ndarray) -> None:
        """Read a byte where `wanted` is 1; zeros follow the end of a stream."""
        count = len(wanted)
        found = self._bytes.take(self._next[:count]) * wanted
        self._code[:count] = (self._code[:count] << 8 * wanted) | found
        self._next[:count] = np.minimum(self._next[:count] + wanted, self._ends[:count])


def _divide(code: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """The whole part of a quotient; exact, since both are below 2^32, and faster than `//`."""
    return (code / unit).astype(np.int64)


class SingleReader(Stream):
    """Reads the streams of one picture (N = 1); faster than a batch of few."""

    knows_numbers = False

    def __init__(self, streams: Sequence[bytes]) -> None:
        self._streams = [_SingleStream(stream) for stream in streams]

    def code(self, levels: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        run = -(-numbers.shape[1] // len(self._streams))
        found: list[int] = []
        for plane in levels[..., 0]:
            tables, shifts = (part.tolist() for part in _split(plane))
            for index, stream in enumerate(self._streams):
                rows = slice(index * run, (index + 1) * run)
                found += stream.read(tables[rows], shifts[rows])
        return np.array(found, dtype=np.int64).reshape(numbers.shape)


class _SingleStream:
    def __init__(self, stream: bytes) -> None:
        self._bytes = stream
        self._next = 4
        self._code = int.from_bytes(stream[:4].ljust(4, b"\0"))
        self._width = FULL - 1

    def read(self, tables: Sequence[int], shifts: Sequence[int]) -> list[int]:
        found = []
        for table, shift in zip(tables, shifts, strict=True):
            unit = self._width >> BITS
            symbol = _SYMBOL_BYTES[table][min(self._code // unit, TOTAL - 1)]
            start, share = _SHARES[table][symbol]
            self._narrow(unit * start, unit * share)
            number = symbol - LARGEST
            if symbol == ESCAPE:
                number = self._raw(ESCAPE_BITS) - (MAX_NUMBER + 1)
            if shift:
                number = (number << shift) + self._raw(shift)
            found.append(number)
        return found

    def _raw(self, bits: int) -> int:
        unit = self._width >> bits
        value = min(self._code // unit, (1 << bits) - 1)
        self._narrow(unit * value, unit)
        return value

    def _narrow(self, start: int, width: int) -> None:
        code = min(self._code - start, width - 1)
        while width < RENEW:
            byte = self._bytes[self._next] if self._next < len(self._bytes) else 0
            code, width, self._next = code << 8 | byte, width << 8, self._next + 1
        self._code, self._width = code, width
