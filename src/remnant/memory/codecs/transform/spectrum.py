"""How large the coefficients of a picture's blocks are expected to be, from those already known.

A picture is cut into blocks of side n, each block into n * n frequencies of C channels. The scan
goes from low frequencies to high ones, through all channels and all blocks at each. What is
expected of a coefficient starts from the spectrum of photographs, and is corrected by how much the
coefficients before it, in its block and the four around it, exceed what was expected of them.

What a decoder computes here are integers from a few constants: it must come to the same
expectations, to the bit, on every machine.

Axes: T = n * n * C places in the scan, P of them at a time, B blocks of a picture, N pictures.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import log2, sqrt

import numpy as np

from remnant.memory.codecs.transform.range_coder import LEVELS_PER_OCTAVE, Stream, mean_magnitude

STREAM_BLOCKS = 64  # at most; more streams decode faster together, each costs about 3 bytes

_WEIGHT_ONE, MEAN_ONE = 64, 4096
RATIO_ONE, RATIO_END = 256, 256 * 32
LARGEST_SEEN = 15  # a magnitude above it says no more
NEIGHBOUR_BITS = 4


@dataclass(frozen=True)
class Constants:
    """What is known of photographs beforehand; logarithms are to the base 2.

    Fitted to training images of CIFAR-100 by `benchmarks/fit_spectrum.py`.
    """

    # Scale of a coefficient at frequency f, in half cycles per pixel: top - fall f - bend sqrt(f).
    top: tuple[float, ...] = (8.15, 5.175, 4.05)
    fall: tuple[float, ...] = (5.35, 5.05, 5.6)
    bend: tuple[float, ...] = (0.3, 0.3, -0.4)
    # Of what the lowest frequency adds to its prediction, in blocks of side 8; in mosaics, where
    # neighbours are strangers, more.
    first: tuple[float, ...] = (8.55, 5.85, 4.9)
    first_mosaic: float = 0.8
    # Its prediction, in 16ths: left, above, above left, above right, mean of all before.
    neighbours: tuple[int, ...] = (14, 8, -5, 1, -2)
    neighbours_mosaic: tuple[int, ...] = (11, 0, -1, 2, 3)
    decay: float = 2.7  # octaves that a weight loses per step in frequency
    from_chroma: float = 0.225  # of a weight, for another channel
    from_luma: float = 0.04
    own_block: int = 7  # weight of the block against one of the four around it
    prior: float = 0.08  # in magnitudes: how much an expectation is trusted
    slope: tuple[float, ...] = (0.87, 0.98, 1.04)  # how far a level follows what was seen
    first_prior: int = 3  # in blocks
    first_slope: float = 0.8


PHOTOGRAPHS = Constants()


class Spectrum:
    """The scan of pictures of one shape at one quantiser step."""

    def __init__(
        self,
        grid: tuple[int, int],
        side: int,
        channels: int,
        step: float,
        *,
        is_mosaic: bool = False,
        constants: Constants = PHOTOGRAPHS,
    ) -> None:
        self.constants, self.grid, self.channels = constants, grid, channels
        self.num_blocks = grid[0] * grid[1]
        self.run = -(-self.num_blocks // -(-self.num_blocks // STREAM_BLOCKS))  # blocks per stream
        self.num_streams = -(-self.num_blocks // self.run)
        self.scan = _scan(side, channels)
        self.is_mosaic = is_mosaic
        self.first_weights = constants.neighbours_mosaic if is_mosaic else constants.neighbours
        self.levels = np.array(self._find_levels(side, step))
        self.means = np.array(
            [round(MEAN_ONE * mean_magnitude(level)) for level in self.levels.tolist()]
        )
        self.sources = _find_sources(side, channels, constants)
        self.prior = np.float32(round(constants.prior * _WEIGHT_ONE * constants.own_block))
        self.wanted = self._find_wanted()
        self.adjust = np.concatenate([adjustments(slope) for slope in constants.slope])
        self._tables = np.arange(len(self.scan)).reshape(-1, 1, 1) % channels * RATIO_END

    def code(self, stream: Stream, numbers: np.ndarray) -> np.ndarray:
        """Send quantised coefficients, int64 [T, B, N], and return them; or receive them."""
        numbers = numbers.copy()
        sizes = np.zeros(numbers.shape, dtype=np.float32)  # magnitudes, as contexts see them
        changes = self._code_first(stream, numbers[: self.channels])
        sizes[: self.channels] = np.minimum(np.abs(changes), LARGEST_SEEN)
        if stream.knows_numbers:
            sizes[self.channels :] = np.minimum(np.abs(numbers[self.channels :]), LARGEST_SEEN)
            levels = self.expect(range(self.channels, len(numbers)), sizes)
            stream.code(levels, numbers[self.channels :])
            return numbers
        for place in range(self.channels, len(numbers)):
            levels = self.expect(range(place, place + 1), sizes)
            numbers[place] = stream.code(levels, numbers[place : place + 1])[0]
            sizes[place] = np.minimum(np.abs(numbers[place]), LARGEST_SEEN)
        return numbers

    # ---------------------------------------------------------------------------------- constants

    def _find_levels(self, side: int, step: float) -> list[int]:
        """What the spectrum of photographs expects at each place of the scan."""
        known, levels = self.constants, []
        for row, column, channel in self.scan:
            frequency = sqrt(row * row + column * column) / side
            size = known.top[channel] - known.fall[channel] * frequency
            size -= known.bend[channel] * sqrt(frequency)
            if row == column == 0:
                size = known.first[channel] + log2(side / 8)
                size += known.first_mosaic if self.is_mosaic else 0
            if self.channels == 1:
                size -= log2(3) / 2  # grey: a third of the energy of three equal channels
            levels.append(_to_level(size - log2(step)))
        return levels

    def _find_wanted(self) -> np.ndarray:
        """What is expected to be seen at each place around each block, integers [T, B, 1]."""
        means = np.minimum(self.means, LARGEST_SEEN * MEAN_ONE)
        sums = np.array([weights.astype(int) @ means[sources] for sources, weights in self.sources])
        shares = self.constants.own_block + _count_neighbours(self.grid).ravel()
        return (sums[:, None] * shares // MEAN_ONE)[..., None] + self.prior.astype(int)

    # ------------------------------------------------------------------------- higher frequencies

    def expect(self, places: range, sizes: np.ndarray) -> np.ndarray:
        """Levels [P, B, N] of the coefficients at some places, corrected by their contexts."""
        flat = sizes.reshape(len(sizes), -1)
        seen = np.empty((len(places), flat.shape[1]), dtype=np.float32)
        for index, place in enumerate(places):
            sources, weights = self.sources[place]
            np.matmul(weights, flat[sources], out=seen[index])
        found = self._add_neighbours(seen).reshape(len(places), *sizes.shape[1:])
        span = slice(places.start, places.stop)
        # A quotient of floats that hold integers below 2^31: its whole part is exact everywhere.
        ratio = np.minimum(found / self.wanted[span], (RATIO_END - 1) / RATIO_ONE)
        index = (ratio * RATIO_ONE).astype(np.int64) + self._tables[span]
        return self.adjust.take(index) + self.levels[span, None, None]

    def _add_neighbours(self, seen: np.ndarray) -> np.ndarray:
        """What was seen [P, B * N] in each block and, with less weight, in the four around it."""
        seen = seen.reshape(len(seen), *self.grid, seen.shape[1] // self.num_blocks)
        total = self.constants.own_block * seen + self.prior
        total[:, 1:] += seen[:, :-1]
        total[:, :-1] += seen[:, 1:]
        total[:, :, 1:] += seen[:, :, :-1]
        total[:, :, :-1] += seen[:, :, 1:]
        return total

    # ------------------------------------------------------------------------ the lowest frequency

    def _code_first(self, stream: Stream, numbers: np.ndarray) -> np.ndarray:
        """Fill in numbers [C, B, N] of the lowest frequency; returns what predictions lack."""
        everywhere = np.arange(self.num_blocks)
        changes = numbers - self._predict(numbers, everywhere)
        levels = self._expect_first(changes, everywhere)
        for index in range(self.run):
            blocks = np.arange(index, self.num_blocks, self.run)
            if stream.knows_numbers:
                stream.code(levels[:, blocks], changes[:, blocks])
                continue
            levels = self._expect_first(changes, blocks)
            changes[:, blocks] = stream.code(levels, changes[:, blocks])
            numbers[:, blocks] = self._predict(numbers, blocks) + changes[:, blocks]
        return changes

    def _expect_first(self, changes: np.ndarray, blocks: np.ndarray) -> np.ndarray:
        """Levels of what the predictions of some blocks lack, from what others lacked before."""
        index = (blocks % self.run)[:, None]
        known, levels = self.constants, self.levels[: self.channels, None, None]
        means = self.means[: self.channels, None, None]
        # The first block of a stream, which has no prediction, says nothing about the others.
        sizes = np.abs(changes)
        sizes[:, :: self.run] = 0
        seen = self._sum_before(sizes)[:, blocks] * MEAN_ONE + known.first_prior * means
        wanted = means * np.maximum(index - 1 + known.first_prior, 1)
        ratio = np.minimum(seen * RATIO_ONE // np.maximum(wanted, 1), RATIO_END - 1)
        adjusted = levels + adjustments(known.first_slope).take(ratio)
        return np.where(index == 0, levels + LEVELS_PER_OCTAVE, adjusted)

    def _predict(self, known: np.ndarray, blocks: np.ndarray) -> np.ndarray:
        """Numbers [C, len(blocks), N] from those before in their streams; 0 if there are none."""
        index, width = blocks % self.run, self.grid[1]
        column = blocks % width
        mean = self._sum_before(known)[:, blocks] // np.maximum(index, 1)[:, None]
        places = ((1, column > 0), (width, column >= 0), (width + 1, column > 0))
        places = (*places, (width - 1, column < width - 1))
        *weights, rest = self.first_weights
        total = rest * mean
        for weight, (back, exists) in zip(weights, places, strict=True):
            is_known = (exists & (back > 0) & (back <= index))[:, None]
            total += weight * np.where(is_known, known[:, np.maximum(blocks - back, 0)], mean)
        return (total + (1 << NEIGHBOUR_BITS - 1)) >> NEIGHBOUR_BITS

    def _sum_before(self, values: np.ndarray) -> np.ndarray:
        """For each block the sum of `values` [C, B, N] over the blocks before it in its stream."""
        sums = np.cumsum(values, axis=1) - values
        starts = np.arange(self.num_blocks) // self.run * self.run
        return sums - sums[:, starts]


def _scan(side: int, channels: int) -> list[tuple[int, int, int]]:
    """Row and column of a frequency and its channel, low frequencies first."""
    frequencies = [(row, column) for row in range(side) for column in range(side)]
    frequencies.sort(key=lambda place: (place[0] ** 2 + place[1] ** 2, *place))
    return [(row, column, channel) for row, column in frequencies for channel in range(channels)]


@lru_cache
def _find_sources(
    side: int, channels: int, known: Constants
) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each place of the scan: the places before it that say something, and their weights."""
    scan = np.array(_scan(side, channels))
    found = []
    for place, (row, column, channel) in enumerate(scan.tolist()):
        rows, columns, sources = scan[:place].T
        distance = np.sqrt((rows - row) ** 2 + (columns - column) ** 2)
        share = np.where(sources == 0, known.from_luma, known.from_chroma)
        share[sources == channel] = 1
        weights = np.rint(_WEIGHT_ONE * share * 2 ** (-known.decay * distance))
        (before,) = np.nonzero(weights)
        found.append((before, weights[before].astype(np.float32)))
    return found


def _to_level(octaves: float) -> int:
    return round(LEVELS_PER_OCTAVE * octaves)


@lru_cache
def adjustments(slope: float) -> np.ndarray:
    """What a ratio of seen to expected sizes, in 256ths, adds to a level."""
    ratios = [max(ratio, 1) / RATIO_ONE for ratio in range(RATIO_END)]
    return np.array([_to_level(slope * log2(ratio)) for ratio in ratios])


def _count_neighbours(grid: tuple[int, int]) -> np.ndarray:
    """How many of the four blocks around each block exist, [GH, GW]."""
    rows, columns = np.indices(grid)
    up_and_down = (rows > 0).astype(int) + (rows < grid[0] - 1)
    return up_and_down + (columns > 0) + (columns < grid[1] - 1)
