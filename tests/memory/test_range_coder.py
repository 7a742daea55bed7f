from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remnant.memory.codecs.transform.range_coder import (
    LEVELS_PER_OCTAVE,
    MAX_NUMBER,
    BatchReader,
    SingleReader,
    Writer,
    mean_magnitude,
)


def draw_planes(seed: int, num_planes: int, rows: int, pictures: int) -> tuple[np.ndarray, ...]:
    """Levels, and numbers of about the size that they promise, some far from it."""
    rng = np.random.default_rng(seed)
    levels = rng.integers(-60, 100, (num_planes, rows, pictures))
    sizes = 2.0 ** (levels / LEVELS_PER_OCTAVE)
    numbers = np.rint(rng.laplace(0, sizes)).astype(np.int64)
    is_odd = rng.random(numbers.shape) < 0.01
    numbers[is_odd] = rng.integers(-MAX_NUMBER, MAX_NUMBER, int(is_odd.sum()))
    return levels, np.clip(numbers, -MAX_NUMBER, MAX_NUMBER)


def write(levels: np.ndarray, numbers: np.ndarray, num_streams: int) -> list[list[bytes]]:
    """The streams of each picture."""
    written = []
    for picture in range(numbers.shape[2]):
        writer = Writer(num_streams)
        for plane in range(len(numbers)):  # one at a time here, all at once when they are read
            part = np.s_[plane : plane + 1, :, picture : picture + 1]
            writer.code(levels[part], numbers[part])
        written.append(writer.streams())
    return written


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 3), st.integers(1, 4))
def test_numbers_come_back_one_by_one_and_together(
    seed: int, rows: int, num_streams: int, pictures: int
) -> None:
    run = -(-rows // num_streams)
    num_streams = -(-rows // run)
    levels, numbers = draw_planes(seed, 5, rows, pictures)
    written = write(levels, numbers, num_streams)
    together = BatchReader(list(zip(*written, strict=True)))
    assert np.array_equal(together.code(levels, np.zeros_like(numbers)), numbers)
    for picture, streams in enumerate(written):
        one = np.s_[:, :, picture : picture + 1]
        alone = SingleReader(streams)
        assert np.array_equal(alone.code(levels[one], np.zeros_like(numbers[one])), numbers[one])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=5), st.integers(0, 10**6))
def test_both_readers_make_the_same_of_any_bytes(parts: list[bytes], seed: int) -> None:
    levels, _ = draw_planes(seed, 6, 4, len(parts))
    numbers = BatchReader([parts]).code(levels, np.zeros_like(levels))
    for picture, part in enumerate(parts):
        one = np.s_[:, :, picture : picture + 1]
        alone = SingleReader([part]).code(levels[one], np.zeros_like(levels[one]))
        assert np.array_equal(alone, numbers[one])


@pytest.mark.parametrize("level", [-36, -16, 0, 8, 16, 40])
def test_numbers_of_the_promised_size_cost_their_entropy(level: int) -> None:
    scale = 2 ** (level / LEVELS_PER_OCTAVE)
    sizes = np.arange(1, 4000)
    tails = 0.5 * np.exp(-(sizes - 0.4) / scale) * (1 - np.exp(-1 / scale))
    chances = np.concatenate([tails[::-1], [1 - 2 * tails.sum()], tails])
    rng = np.random.default_rng(0)
    numbers = rng.choice(np.arange(-3999, 4000), p=chances / chances.sum(), size=(20, 200, 1))
    levels = np.full_like(numbers, level)
    (stream,) = write(levels, numbers, 1)[0]
    entropy = -(chances * np.log2(chances, where=chances > 0, out=np.zeros_like(chances))).sum()
    expected = entropy * numbers.size / 8
    assert len(stream) < 1.05 * expected + 4
    assert np.abs(numbers).mean() == pytest.approx(mean_magnitude(level), rel=0.15, abs=0.01)


def test_a_stream_of_expected_zeros_takes_no_bytes() -> None:
    zeros = np.zeros((20, 16, 1), dtype=np.int64)
    (stream,) = write(np.full_like(zeros, -36), zeros, 1)[0]
    assert len(stream) <= 1


def test_files_written_today_are_read_alike_for_ever() -> None:
    levels = (np.arange(400) * 7 % 110 - 45).reshape(20, 20, 1)
    stream = b"".join(hashlib.sha256(bytes([index])).digest() for index in range(12))
    numbers = SingleReader([stream]).code(levels, np.zeros_like(levels))
    assert hashlib.sha256(numbers.astype("<i8").tobytes()).hexdigest()[:16] == "d78cda2d665dbefd"
