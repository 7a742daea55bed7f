"""All that the compiled loop needs to know about pictures of one shape and quality, as arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from remnant.memory.codecs.transform.range_coder import READING, ReadingTables
from remnant.memory.codecs.transform.spectrum import Spectrum, adjustments


class DecodingPlan(NamedTuple):
    """See `Spectrum` for the axes: T places in the scan, B blocks, C channels, side n."""

    reading: ReadingTables
    grid: tuple[int, int]
    run: int  # blocks per stream
    levels: np.ndarray  # int64 [T]
    means: np.ndarray  # int64 [T]
    first_weights: np.ndarray  # int64 [5]
    first_prior: int
    first_adjust: np.ndarray  # int64, by ratio
    targets: np.ndarray  # int64: places that see a place, of all places one after the other
    weights: np.ndarray  # int32, with which they see it
    ends: np.ndarray  # int64 [T + 1]: where the targets of a place begin, and those of the next
    own_block: int
    prior: int
    wanted: np.ndarray  # float64 [T, B]
    adjust: np.ndarray  # int64 [C, ratios]
    unseen: np.ndarray  # int64 [T, B]: levels where all coefficients before are 0
    step: int  # of the quantiser, in 16ths
    side: int  # n
    waves: np.ndarray  # float64 [T / C, n * n]: pixels of a frequency; integers
    colours: np.ndarray  # int64 [C, C], integers


def plan_decoding(
    spectrum: Spectrum, step: int, basis: np.ndarray, colours: np.ndarray
) -> DecodingPlan:
    """The plan for pictures of a spectrum, with the integers that undo the transform."""
    weights = _weigh(spectrum)
    sources, targets = np.nonzero(weights)
    known, places, channels = spectrum.constants, range(len(spectrum.scan)), len(colours)
    nothing = np.zeros((len(places), spectrum.num_blocks, 1), dtype=np.float32)
    waves = [np.outer(basis[row], basis[column]) for row, column, _ in spectrum.scan[::channels]]
    return DecodingPlan(
        reading=READING,
        grid=spectrum.grid,
        run=spectrum.run,
        levels=spectrum.levels,
        means=spectrum.means,
        first_weights=np.array(spectrum.first_weights),
        first_prior=known.first_prior,
        first_adjust=adjustments(known.first_slope),
        targets=targets,
        weights=weights[sources, targets],
        ends=np.searchsorted(sources, range(len(places) + 1)),
        own_block=known.own_block,
        prior=int(spectrum.prior),
        wanted=spectrum.wanted[..., 0].astype(np.float64),
        adjust=spectrum.adjust.reshape(len(known.slope), -1),
        unseen=spectrum.expect(places, nothing)[..., 0],
        step=step,
        side=len(basis),
        waves=np.array(waves).reshape(len(waves), -1),
        colours=colours,
    )


def _weigh(spectrum: Spectrum) -> np.ndarray:
    """The weight of each place for each place after it, int32 [T, T]."""
    weights = np.zeros((len(spectrum.scan), len(spectrum.scan)), dtype=np.int32)
    for target, (sources, shares) in enumerate(spectrum.sources):
        weights[sources, target] = shares
    return weights
