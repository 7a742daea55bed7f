"""Fit the constants of the transform coder to photographs.

    python benchmarks/fit_spectrum.py [ROUNDS]

Counts the bytes of CIFAR-100 training images (whole, and a quarter of their 4 px patches as a
mosaic) at three quantiser steps, moves one constant at a time, and keeps what saves bytes. Prints
`Constants` after each round; those of `remnant.memory.codecs.transform` came from four rounds. The
images are spread over all classes, and thirty numbers say nothing about any of them; a memory file
written with other constants cannot be read, so changing them is a change of format.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from remnant.data import DataConfig, load_dataset
from remnant.memory.codecs.coded_patches import CodedPatchCodec, CodedPatchesConfig
from remnant.memory.codecs.patches import cut
from remnant.memory.codecs.transform import TransformCoder, range_coder, step_of
from remnant.memory.codecs.transform.range_coder import Stream
from remnant.memory.codecs.transform.spectrum import PHOTOGRAPHS, Constants, Spectrum
from remnant.randomness import generator

QUALITIES = (60, 75, 87)
NUM_WHOLE, NUM_MOSAICS = 200, 400
# The first move of each constant; halved after each round.
MOVES: dict[str, float] = {
    "top": 0.1,
    "fall": 0.2,
    "bend": 0.2,
    "first": 0.1,
    "first_mosaic": 0.1,
    "neighbours": 1,
    "neighbours_mosaic": 1,
    "decay": 0.2,
    "from_chroma": 0.05,
    "from_luma": 0.02,
    "own_block": 1,
    "prior": 0.02,
    "slope": 0.04,
    "first_prior": 1,
    "first_slope": 0.06,
}


@dataclass
class Counter(Stream):
    """Counts the bits of numbers instead of writing them."""

    knows_numbers = True
    bits: float = field(default=0.0)

    def code(self, levels: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        self.bits += float(count_bits(levels, numbers).sum())
        return numbers


def count_bits(levels: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """What numbers of these levels cost, but for rounding to bytes at the end of a stream."""
    tables, shifts = range_coder._split(levels)
    largest, escape = range_coder._LARGEST, range_coder._ESCAPE
    symbols = np.minimum(np.abs(numbers >> shifts) + largest, escape)  # signs cost the same
    bits = range_coder._BITS - np.log2(range_coder._FREQUENCY[tables, symbols])
    return bits + shifts + range_coder._ESCAPE_BITS * (symbols == escape)


@dataclass(frozen=True)
class Sample:
    """Quantised pictures of one kind at one quality."""

    build: Any  # Spectrum, but for its constants
    numbers: np.ndarray  # [T, B, N]

    def log_bytes(self, constants: Constants) -> float:
        counter = Counter()
        self.build(constants=constants).code(counter, self.numbers)
        return float(np.log2(counter.bits / 8 / self.numbers.shape[2]))


def sample(pictures: np.ndarray, quality: int, side: int, *, is_mosaic: bool) -> Sample:
    coder = TransformCoder(pictures.shape[1:], side, is_mosaic=is_mosaic)
    numbers = [coder.quantise(picture, quality) for picture in pictures]
    grid = (pictures.shape[1] // side, pictures.shape[2] // side)
    build = partial(Spectrum, grid, side, 3, step_of(quality) / 16, is_mosaic=is_mosaic)
    return Sample(build, np.concatenate(numbers, axis=2))


def load_samples() -> list[Sample]:
    images = load_dataset(DataConfig(dataset="cifar100", images_per_class=6)).train.images
    pixels = images.read(torch.randperm(len(images), generator=generator(0))).numpy()
    codec = CodedPatchCodec(CodedPatchesConfig(), pixels.shape[1:])
    mosaics = [
        codec.mosaic.lay(cut(image, codec.grid)[codec.patches.draw(generator(0, index))])
        for index, image in enumerate(pixels[:NUM_MOSAICS])
    ]
    samples = [sample(pixels[-NUM_WHOLE:], quality, 8, is_mosaic=False) for quality in QUALITIES]
    return samples + [
        sample(np.array(mosaics), quality, 4, is_mosaic=True) for quality in QUALITIES
    ]


def moved(constants: Constants, name: str, index: int | None, move: float) -> Constants:
    value = getattr(constants, name)
    if index is None:
        return replace(constants, **{name: type(value)(round(value + move, 4))})
    values = list(value)
    values[index] = type(values[index])(round(values[index] + move, 4))
    return replace(constants, **{name: tuple(values)})


def fit_round(samples: list[Sample], constants: Constants, share: float) -> Constants:
    """Move every constant both ways, for as long as it saves bytes."""

    def cost(candidate: Constants) -> float:
        return sum(sample.log_bytes(candidate) for sample in samples) / len(samples)

    best = cost(constants)
    for name in (one.name for one in fields(Constants)):
        value, move = getattr(constants, name), MOVES[name]
        move = max(1, int(move * share)) if isinstance(move, int) else move * share
        for index in range(len(value)) if isinstance(value, tuple) else [None]:
            for direction in (move, -move):
                while True:
                    candidate = moved(constants, name, index, direction)
                    found = cost(candidate)
                    if found >= best - 1e-6:
                        break
                    constants, best = candidate, found
    print(f"{2**best:.2f} bytes (geometric mean): {constants}", flush=True)
    return constants


if __name__ == "__main__":
    everything, constants = load_samples(), PHOTOGRAPHS
    for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 4):
        constants = fit_round(everything, constants, 0.5**number)
