"""The decoder of `transform` as loops over numbers, compiled by numba (the extra `fast`).

It makes the same pixels of any bytes as `Spectrum.code` with a `BatchReader` and the inverse
transform in numpy, which run where numba is not installed: every step is the same integer
arithmetic, and floats hold integers below 2^53. Here a picture is decoded from its first bit to its
last pixel while it is in the cache, and a zero, which most coefficients are, costs no division.

Axes: T places in the scan, B blocks of side n, S streams of a picture, C channels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from remnant.memory.codecs.transform.compiled_contexts import (
    add_neighbours,
    compiled,
    expect,
    expect_first,
    inlined,
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
    TOTAL,
    ReadingTables,
)

_CODE, _WIDTH, _NEXT, _END = range(4)  # of a stream's state


@compiled
def decode_pictures(
    plan: DecodingPlan,
    data: np.ndarray,
    starts: np.ndarray,
    pixels: np.ndarray,
    limit: int,
    excess: int,
    bits: int,
) -> None:
    """Fill `pixels`, uint8 [N, H, W, C].

    Args:
        plan: Of pictures of this shape.
        data: The streams of all pictures, one after the other, uint8.
        starts: Where each of the N * S streams begins in `data`, and where the last ends.
        pixels: As long and wide as the pictures, which may end within blocks.
        limit: No dequantised coefficient is larger.
        excess: Bits below the point after the inverse transform.
        bits: Bits below the point of a colour, of a channel where there is one.
    """
    num_blocks = plan.grid[0] * plan.grid[1]
    num_streams = -(-num_blocks // plan.run)
    numbers = np.empty((len(plan.levels), num_blocks), np.int64)
    seen = np.empty(numbers.shape, np.int32)
    for picture in range(len(pixels)):
        first = picture * num_streams
        _read_picture(plan, data, starts[first : first + num_streams + 1], numbers, seen)
        _draw(plan, numbers, pixels[picture], limit, excess, bits)


# ---------------------------------------------------------------------------------- expectations


@compiled
def _read_picture(
    plan: DecodingPlan, data: np.ndarray, starts: np.ndarray, numbers: np.ndarray, seen: np.ndarray
) -> None:
    """Fill `numbers` [T, B]; `seen` [T, B] is room to work in."""
    num_places, num_blocks = numbers.shape
    channels, run = len(plan.colours), plan.run
    states = np.empty((len(starts) - 1, 4), np.int64)
    seen[:] = 0
    has_seen = np.zeros(num_places, np.bool_)
    for stream in range(len(states)):
        _open(data, starts[stream], starts[stream + 1], states[stream])
        _read_first(plan, data, states[stream], stream * run, numbers, seen, has_seen)
    levels, totals = np.empty(num_blocks, np.int64), np.empty(num_blocks, np.int32)
    for place in range(channels, num_places):
        if has_seen[place]:
            add_neighbours(plan, seen[place], totals)
            expect(plan, place, place % channels, totals, levels)
        else:
            levels[:] = plan.unseen[place]
        for stream in range(len(states)):
            first, end = stream * run, min((stream + 1) * run, num_blocks)
            row = numbers[place, first:end]
            _read_run(plan.reading, data, states[stream], levels[first:end], row)
        for block in range(num_blocks):
            if numbers[place, block] != 0:
                tell(plan, place, block, numbers[place, block], seen, has_seen)


@compiled
def _read_first(
    plan: DecodingPlan,
    data: np.ndarray,
    state: np.ndarray,
    first: int,
    numbers: np.ndarray,
    seen: np.ndarray,
    has_seen: np.ndarray,
) -> None:
    """The lowest frequency of the blocks of one stream, from block `first` on."""
    channels = len(plan.colours)
    sums, lacks = np.zeros(channels, np.int64), np.zeros(channels, np.int64)
    level, change = np.empty(1, np.int64), np.empty(1, np.int64)
    for index in range(min(plan.run, numbers.shape[1] - first)):
        block = first + index
        for channel in range(channels):
            level[0] = expect_first(plan, index, channel, lacks[channel])
            _read_run(plan.reading, data, state, level, change)
            number = predict(plan, numbers[channel], block, index, sums[channel]) + change[0]
            numbers[channel, block] = number
            sums[channel] += number
            lacks[channel] += abs(change[0]) if index > 0 else 0
            tell(plan, channel, block, change[0], seen, has_seen)


# --------------------------------------------------------------------------------- the range coder


@compiled
def _open(data: np.ndarray, start: int, end: int, state: np.ndarray) -> None:
    code = 0
    for index in range(start, start + 4):
        code = code << 8 | (np.int64(data[index]) if index < end else 0)
    state[_CODE], state[_WIDTH], state[_NEXT], state[_END] = code, FULL - 1, start + 4, end


@inlined
def _read_run(
    tables: ReadingTables,
    data: np.ndarray,
    state: np.ndarray,
    levels: np.ndarray,
    numbers: np.ndarray,
) -> None:
    """Read as many numbers as there are levels."""
    code, width, at, end = state[_CODE], state[_WIDTH], state[_NEXT], state[_END]
    for index in range(len(levels)):
        place = min(max(levels[index] - LOWEST, 0), len(tables.table) - 1)
        table, shift = tables.table[place], tables.shift[place]
        unit = width >> BITS
        symbol = np.int64(LARGEST)  # which stands for 0
        offset, width = (
            code - unit * tables.start[table, symbol],
            unit * tables.share[table, symbol],
        )
        if offset < 0 or offset >= width:
            symbol = np.int64(tables.symbol[table, min(code // unit, TOTAL - 1)])
            offset = code - unit * tables.start[table, symbol]
            width = unit * tables.share[table, symbol]
        code, width, at = _narrow(data, end, offset, width, at)
        number = symbol - LARGEST
        if symbol == ESCAPE:
            number, code, width, at = _read_raw(data, end, code, width, at, ESCAPE_BITS)
            number -= MAX_NUMBER + 1
        if shift:
            low, code, width, at = _read_raw(data, end, code, width, at, int(shift))
            number = (number << shift) + low
        numbers[index] = number
    state[_CODE], state[_WIDTH], state[_NEXT] = code, width, at


@inlined
def _read_raw(
    data: np.ndarray, end: int, code: int, width: int, at: int, bits: int
) -> tuple[int, int, int, int]:
    """Bits as they are, and the state after them."""
    unit = width >> bits
    value = min(code // unit, (1 << bits) - 1)
    code, width, at = _narrow(data, end, code - unit * value, unit, at)
    return value, code, width, at


@inlined
def _narrow(data: np.ndarray, end: int, code: int, width: int, at: int) -> tuple[int, int, int]:
    code = min(code, width - 1)  # less only in bytes that no encoder wrote
    while width < RENEW:
        byte: Any = np.int64(data[at]) if at < end else 0
        code, width, at = code << 8 | byte, width << 8, at + 1
    return code, width, at


# -------------------------------------------------------------------------------------- the pixels


@compiled
def _draw(
    plan: DecodingPlan,
    numbers: np.ndarray,
    pixels: np.ndarray,
    limit: int,
    excess: int,
    bits: int,
) -> None:
    side, channels = plan.side, len(plan.colours)
    planes, levels = np.empty((channels, side * side)), np.empty(side * side)
    for block in range(numbers.shape[1]):
        _undo_transform(plan, numbers, block, limit, 2.0**-excess, planes)
        top, left = block // plan.grid[1] * side, block % plan.grid[1] * side
        for colour in range(channels):
            _mix(planes, plan.colours[:, colour], bits, levels)
            _put(levels, pixels[top : top + side, left : left + side, colour], side)


@compiled
def _undo_transform(
    plan: DecodingPlan,
    numbers: np.ndarray,
    block: int,
    limit: int,
    scale: float,
    planes: np.ndarray,
) -> None:
    """Fill `planes` [C, n * n] of a block: the sum of its waves, most of which are missing."""
    channels = len(planes)
    planes[:] = 0
    for place in range(len(numbers)):
        number = numbers[place, block]
        if number != 0:
            size = float(min(max(number * plan.step, -limit), limit))
            plane, wave = planes[place % channels], plan.waves[place // channels]
            for pixel in range(len(wave)):
                plane[pixel] += size * wave[pixel]
    for channel in range(channels):
        plane = planes[channel]
        for pixel in range(len(plane)):
            plane[pixel] = np.floor(plane[pixel] * scale + 0.5)


@compiled
def _mix(planes: np.ndarray, shares: np.ndarray, bits: int, levels: np.ndarray) -> None:
    """Fill `levels` [n * n] of one colour, from the channels [C, n * n] of a block."""
    levels[:] = 257 << bits - 1
    for channel in range(len(planes)):
        plane, share = planes[channel], float(shares[channel])
        for pixel in range(len(levels)):
            levels[pixel] += plane[pixel] * share
    scale = 2.0**-bits
    for pixel in range(len(levels)):
        level = np.floor(levels[pixel] * scale)
        level = level if level > 0.0 else 0.0
        levels[pixel] = level if level < 255.0 else 255.0


@compiled
def _put(levels: np.ndarray, pixels: np.ndarray, side: int) -> None:
    """Levels [n * n] into as much of a block [H, W] as lies within the picture."""
    for row in range(pixels.shape[0]):
        for column in range(pixels.shape[1]):
            pixels[row, column] = np.uint8(levels[row * side + column])
