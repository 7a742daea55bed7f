"""What the compiled loops expect of a coefficient, from those already known; see `Spectrum`.

Axes: T places in the scan, B blocks of a picture, C channels.
"""

from __future__ import annotations

import numba  # pyright: ignore[reportMissingImports]  # an extra
import numpy as np

from remnant.memory.codecs.transform.decoding_plan import DecodingPlan
from remnant.memory.codecs.transform.range_coder import LEVELS_PER_OCTAVE
from remnant.memory.codecs.transform.spectrum import (
    LARGEST_SEEN,
    MEAN_ONE,
    NEIGHBOUR_BITS,
    RATIO_END,
    RATIO_ONE,
)

# Without Python's lock, so that threads work side by side; without checks for a division by 0,
# since a width is never below 2^24.
compiled = numba.njit(cache=True, nogil=True, error_model="numpy")
# For what is called for every place or number: a call counts the users of a plan's arrays up and
# down again. All that is called so must be inlined: with the contexts alone it was slower.
inlined = numba.njit(nogil=True, error_model="numpy", inline="always")
_LAST_RATIO = (RATIO_END - 1) / RATIO_ONE


@inlined
def tell(
    plan: DecodingPlan, place: int, block: int, number: int, seen: np.ndarray, has_seen: np.ndarray
) -> None:
    """Let the places after this one see a number, each with its weight."""
    size = np.int32(min(abs(number), LARGEST_SEEN))
    for index in range(plan.ends[place], plan.ends[place + 1]):
        target = plan.targets[index]
        seen[target, block] += size * plan.weights[index]
        has_seen[target] = True


@inlined
def add_neighbours(plan: DecodingPlan, seen: np.ndarray, totals: np.ndarray) -> None:
    """Fill `totals` [B] with what was seen in each block and, with less weight, around it."""
    rows, columns = plan.grid
    own_block, prior = np.int32(plan.own_block), np.int32(plan.prior)
    for block in range(len(seen)):
        totals[block] = own_block * seen[block] + prior
    for block in range(columns, len(seen)):
        totals[block] += seen[block - columns]
        totals[block - columns] += seen[block]
    for row in range(rows):
        for block in range(row * columns + 1, (row + 1) * columns):
            totals[block] += seen[block - 1]
            totals[block - 1] += seen[block]


@inlined
def expect(
    plan: DecodingPlan, place: int, channel: int, totals: np.ndarray, levels: np.ndarray
) -> None:
    """Fill `levels` [B] of the coefficients at one place; see `Spectrum`."""
    base = plan.levels[place]
    for block in range(len(levels)):
        ratio = min(totals[block] / plan.wanted[place, block], _LAST_RATIO)
        levels[block] = base + plan.adjust[channel, int(ratio * RATIO_ONE)]


@inlined
def expect_first(plan: DecodingPlan, index: int, channel: int, lack: int) -> int:
    if index == 0:
        return plan.levels[channel] + LEVELS_PER_OCTAVE
    mean = plan.means[channel]
    seen = lack * MEAN_ONE + plan.first_prior * mean
    wanted = mean * max(index - 1 + plan.first_prior, 1)
    ratio = min(seen * RATIO_ONE // max(wanted, 1), RATIO_END - 1)
    return plan.levels[channel] + plan.first_adjust[ratio]


@inlined
def predict(plan: DecodingPlan, known: np.ndarray, block: int, index: int, total: int) -> int:
    """From the blocks before in the stream, of which `total` is the sum; 0 for the first."""
    width = plan.grid[1]
    column = block % width
    mean = total // max(index, 1)
    left = known[block - 1] if column > 0 and index >= 1 else mean
    above = known[block - width] if index >= width else mean
    above_left = known[block - width - 1] if column > 0 and index >= width + 1 else mean
    has_right = column < width - 1 and width > 1 and index >= width - 1
    above_right = known[block - width + 1] if has_right else mean
    weights = plan.first_weights
    found = weights[0] * left + weights[1] * above + weights[2] * above_left
    found += weights[3] * above_right + weights[4] * mean
    return (found + (1 << NEIGHBOUR_BITS - 1)) >> NEIGHBOUR_BITS
