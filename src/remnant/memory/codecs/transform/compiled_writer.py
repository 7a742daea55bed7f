"""The encoder of `transform` as loops over numbers, compiled by numba (the extra `fast`).

It writes the same bytes as `Spectrum.code` with a `Writer`. Where that keeps all digits of a number
and adds to it, this keeps the last four bytes and carries into those before.

Axes: T places in the scan, B blocks, S streams of a picture, C channels.
"""

from __future__ import annotations

import numpy as np

from remnant.memory.codecs.transform.compiled_contexts import (
    add_neighbours,
    compiled,
    expect,
    expect_first,
    predict,
    tell,
)
from remnant.memory.codecs.transform.decoding_plan import DecodingPlan
from remnant.memory.codecs.transform.range_coder import (
    BITS,
    ESCAPE,
    ESCAPE_BITS,
    FULL,
    LARGEST,
    LOWEST,
    MAX_NUMBER,
    RENEW,
    ReadingTables,
)

_LOW, _WIDTH, _NEXT = range(3)  # of a stream's state
MOST_BYTES = 6  # of one number: a symbol, an escape and ten low bits are 41 bits


@compiled
def write_picture(
    plan: DecodingPlan, numbers: np.ndarray, written: np.ndarray, lengths: np.ndarray
) -> None:
    """The streams of one picture.

    Args:
        plan: Of pictures of this shape.
        numbers: Quantised coefficients, int64 [T, B].
        written: Filled with the bytes of each stream, uint8 [S, room].
        lengths: Filled with how many there are, int64 [S].
    """
    num_places, num_blocks = numbers.shape
    channels, run = len(plan.colours), plan.run
    states = np.empty((len(written), 3), np.int64)
    seen = np.zeros(numbers.shape, np.int32)
    has_seen = np.zeros(num_places, np.bool_)
    for stream in range(len(states)):
        states[stream] = 0
        states[stream, _WIDTH] = FULL - 1
        _write_first(plan, written[stream], states[stream], stream * run, numbers, seen, has_seen)
    levels, totals = np.empty(num_blocks, np.int64), np.empty(num_blocks, np.int32)
    for place in range(channels, num_places):
        if has_seen[place]:
            add_neighbours(plan, seen[place], totals)
            expect(plan, place, place % channels, totals, levels)
        else:
            levels[:] = plan.unseen[place]
        for block in range(num_blocks):
            stream, number = block // run, numbers[place, block]
            _write_number(plan.reading, written[stream], states[stream], levels[block], number)
        for block in range(num_blocks):
            if numbers[place, block] != 0:
                tell(plan, place, block, numbers[place, block], seen, has_seen)
    for stream in range(len(states)):
        lengths[stream] = _finish(written[stream], states[stream])


@compiled
def _write_first(
    plan: DecodingPlan,
    written: np.ndarray,
    state: np.ndarray,
    first: int,
    numbers: np.ndarray,
    seen: np.ndarray,
    has_seen: np.ndarray,
) -> None:
    """The lowest frequency of the blocks of one stream, from block `first` on."""
    channels = len(plan.colours)
    sums, lacks = np.zeros(channels, np.int64), np.zeros(channels, np.int64)
    for index in range(min(plan.run, numbers.shape[1] - first)):
        block = first + index
        for channel in range(channels):
            number = numbers[channel, block]
            change = number - predict(plan, numbers[channel], block, index, sums[channel])
            level = expect_first(plan, index, channel, lacks[channel])
            _write_number(plan.reading, written, state, level, change)
            sums[channel] += number
            lacks[channel] += abs(change) if index > 0 else 0
            tell(plan, channel, block, change, seen, has_seen)


@compiled
def _write_number(
    tables: ReadingTables, written: np.ndarray, state: np.ndarray, level: int, number: int
) -> None:
    place = min(max(level - LOWEST, 0), len(tables.table) - 1)
    table, shift = tables.table[place], tables.shift[place]
    high = number >> shift
    is_escape = abs(high) > LARGEST
    symbol = ESCAPE if is_escape else high + LARGEST
    _narrow(written, state, tables.start[table, symbol], tables.share[table, symbol], BITS)
    if is_escape:
        _narrow(written, state, high + MAX_NUMBER + 1, 1, ESCAPE_BITS)
    if shift:
        _narrow(written, state, number & (1 << shift) - 1, 1, int(shift))


@compiled
def _narrow(written: np.ndarray, state: np.ndarray, start: int, share: int, bits: int) -> None:
    """Leave of the range the part from `start` on, in units of a `bits`-th power of a half."""
    unit = state[_WIDTH] >> bits
    state[_LOW] += unit * start
    _carry(written, state)
    width = unit * share
    while width < RENEW:
        _write_byte(written, state)
        width <<= 8
    state[_WIDTH] = width


@compiled
def _carry(written: np.ndarray, state: np.ndarray) -> None:
    if state[_LOW] >= FULL:
        state[_LOW] -= FULL
        place = state[_NEXT] - 1
        while written[place] == 255:
            written[place] = 0
            place -= 1
        written[place] += 1


@compiled
def _write_byte(written: np.ndarray, state: np.ndarray) -> None:
    written[state[_NEXT]] = state[_LOW] >> 24
    state[_LOW] = (state[_LOW] & 0xFFFFFF) << 8
    state[_NEXT] += 1


@compiled
def _finish(written: np.ndarray, state: np.ndarray) -> int:
    """Write a number of what is left of the range, with zeros at its end; they are not counted."""
    free = 0
    while state[_WIDTH] >> free > 1:
        free += 1
    state[_LOW] = (state[_LOW] + (1 << free) - 1) >> free << free
    _carry(written, state)
    for _ in range(4):
        _write_byte(written, state)
    length = state[_NEXT]
    while length > 0 and written[length - 1] == 0:
        length -= 1
    return length
