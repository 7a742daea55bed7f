from __future__ import annotations

import hashlib
from collections.abc import Iterator
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.fft import dctn
from sklearn.datasets import load_sample_image

from remnant.errors import InputError
from remnant.memory.codecs.transform import TransformCoder, fitting_side, step_of
from remnant.memory.codecs.transform.range_coder import Stream, mean_magnitude
from remnant.memory.codecs.transform.spectrum import PHOTOGRAPHS, Spectrum
from remnant.memory.codecs.webp import WebpCoder
from remnant.metrics import psnr
from tests.support.strategies import Shape, images, smooth

COLOURS = np.array(
    [[3**-0.5, 3**-0.5, 3**-0.5], [2**-0.5, 0, -(2**-0.5)], [-(6**-0.5), 2 * 6**-0.5, -(6**-0.5)]]
)


def tiles(side: int) -> np.ndarray:
    """Pieces of a photograph, scaled down as the small images of data sets are."""
    photograph = load_sample_image("china.jpg")[:416, :640].astype(float)
    small = photograph.reshape(104, 4, 160, 4, 3).mean(axis=(1, 3)).round().astype(np.uint8)
    rows, columns = 104 // side, 160 // side
    cut = small[: rows * side, : columns * side].reshape(rows, side, columns, side, 3)
    return cut.swapaxes(1, 2).reshape(-1, side, side, 3)


@settings(max_examples=25, deadline=None)
@given(images(), st.sampled_from([1, 20, 75, 100]), st.integers(1, 8), st.booleans())
def test_a_picture_of_any_size_decodes_to_what_the_encoder_foresaw(
    image: np.ndarray, quality: int, side: int, is_mosaic: bool
) -> None:
    coder = TransformCoder(image.shape, side, is_mosaic=is_mosaic)
    payload = coder.encode(image, quality)
    decoded = coder.decode(payload, quality)
    assert (decoded.shape, decoded.dtype) == (image.shape, np.uint8)
    assert np.array_equal(decoded, coder.preview(image, quality))
    assert coder.encode(image, quality) == payload


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 20, 3), (9, 520, 1)])  # the last in two streams
def test_many_pictures_decode_as_each_alone(shape: Shape) -> None:
    coder = TransformCoder(shape)
    payloads = [coder.encode(smooth(shape, seed), 70) for seed in range(13)]
    alone = [coder.decode(payload, 70) for payload in payloads]
    assert np.array_equal(coder.decode_many(payloads, 70), alone)


@pytest.mark.parametrize("shape", [(16, 16, 3), (8, 24, 1)])
@pytest.mark.parametrize("quality", [30, 75, 95])
def test_coefficients_are_those_of_the_cosine_transform_in_steps(
    shape: Shape, quality: int
) -> None:
    image = smooth(shape, 3)
    numbers = TransformCoder(shape).quantise(image, quality)[..., 0]  # [T, B]
    planes = image.astype(float) - 128
    if shape[2] == 3:
        planes = planes @ COLOURS.T
    step = step_of(quality) / 16
    order = sorted((u * u + v * v, u, v) for u in range(8) for v in range(8))
    blocks = [(r, c) for r in range(0, shape[0], 8) for c in range(0, shape[1], 8)]
    for block, (row, column) in enumerate(blocks):
        for channel in range(shape[2]):
            waves = dctn(planes[row : row + 8, column : column + 8, channel], norm="ortho")
            for place, (_, u, v) in enumerate(order):
                size = abs(waves[u, v]) / step + 0.4
                if abs(size - round(size)) > 1e-9:
                    found = numbers[place * shape[2] + channel, block]
                    assert found == int(size) * np.sign(waves[u, v])


@pytest.mark.parametrize("shape", [(32, 32, 3), (20, 12, 1)])
def test_quality_runs_from_a_blur_to_nearly_every_bit(shape: Shape) -> None:
    image, coder = smooth(shape, 1), TransformCoder(shape)
    payloads = {quality: coder.encode(image, quality) for quality in (1, 25, 50, 75, 90, 100)}
    scores = [psnr(image, coder.decode(payload, q)) for q, payload in payloads.items()]
    sizes = [len(payload) for payload in payloads.values()]
    assert scores == sorted(scores)
    assert sizes == sorted(sizes)
    assert scores[-1] > 50
    assert sizes[0] <= 6


def test_extreme_pictures_survive() -> None:
    shape = (16, 16, 3)
    board = np.indices(shape).sum(axis=0) % 2 * np.array([255], dtype=np.uint8)
    for picture in (np.zeros(shape, np.uint8), np.full(shape, 255, np.uint8), board):
        coder = TransformCoder(shape)
        picture = picture.astype(np.uint8)
        decoded = coder.decode(coder.encode(picture, 100), 100)
        assert np.abs(decoded.astype(int) - picture).max() <= 2


def test_a_photograph_takes_fewer_bytes_than_webp_at_a_higher_psnr() -> None:
    pictures = tiles(32)
    ours, theirs = TransformCoder((32, 32, 3)), WebpCoder((32, 32, 3))
    our_payloads = [ours.encode(picture, 75) for picture in pictures]
    their_payloads = [theirs.encode(picture, 70) for picture in pictures]
    decoded = np.array([theirs.decode(payload, 70) for payload in their_payloads])
    ours_decoded = np.array(ours.decode_many(our_payloads, 75))
    assert psnr(pictures, ours_decoded).mean() > psnr(pictures, decoded).mean()
    assert sum(map(len, our_payloads)) < 0.8 * sum(map(len, their_payloads))


# ------------------------------------------------------------------------------------ expectations


class Listener(Stream):
    """Notes the levels that come with numbers."""

    knows_numbers = True

    def __init__(self) -> None:
        self.levels: list[np.ndarray] = []

    def code(self, levels: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        self.levels.append(levels)
        return numbers


def neighbours(block: int, grid: tuple[int, int]) -> Iterator[int]:
    row, column = divmod(block, grid[1])
    for other_row, other_column in (
        (row - 1, column),
        (row + 1, column),
        (row, column - 1),
        (row, column + 1),
    ):
        if 0 <= other_row < grid[0] and 0 <= other_column < grid[1]:
            yield other_row * grid[1] + other_column


def test_a_level_is_what_photographs_expect_times_what_was_seen_over_what_was_expected() -> None:
    """Loops over the definition, in floats; levels are rounded, so they may differ by two."""
    grid, side, step, known = (2, 3), 3, 20.0, PHOTOGRAPHS
    rng = np.random.default_rng(2)
    numbers = np.rint(rng.laplace(0, 2, (27, 6, 1))).astype(np.int64)
    listener, spectrum = Listener(), Spectrum(grid, side, 3, step)
    spectrum.code(listener, numbers)
    found = listener.levels[-1][..., 0]  # of all but the lowest frequency
    order = sorted((u * u + v * v, u, v) for u in range(side) for v in range(side))
    scan = [(u, v, channel) for _, u, v in order for channel in range(3)]

    def base(place: int) -> float:
        u, v, channel = scan[place]
        frequency = (u * u + v * v) ** 0.5 / side
        size = known.top[channel] - known.fall[channel] * frequency
        return 8 * (size - known.bend[channel] * frequency**0.5 - log2(step))

    def weight(source: int, place: int) -> float:
        (u, v, channel), (other_u, other_v, other) = scan[place], scan[source]
        distance = ((u - other_u) ** 2 + (v - other_v) ** 2) ** 0.5
        share = 1 if other == channel else known.from_chroma if other else known.from_luma
        return round(64 * share * 2 ** (-known.decay * distance)) / 64

    compared = 0
    for place in range(12, 27):  # so far from the lowest frequency that it has no weight left
        sources = [source for source in range(place) if weight(source, place)]
        if min(sources) < 3:
            continue
        mean = sum(weight(s, place) * mean_magnitude(round(base(s))) for s in sources)
        for block in range(6):
            around = [*neighbours(block, grid)]

            def seen(one: int, place: int = place, sources: list[int] = sources) -> float:
                return sum(
                    weight(s, place) * min(abs(int(numbers[s, one, 0])), 15) for s in sources
                )

            total = known.own_block * seen(block) + sum(seen(one) for one in around)
            wanted = mean * (known.own_block + len(around))
            prior = known.prior * known.own_block
            slope = known.slope[scan[place][2]]
            level = base(place) + 8 * slope * log2((total + prior) / (wanted + prior))
            assert abs(found[place - 3, block] - level) <= 2
            compared += 1
    assert compared >= 12


@pytest.mark.parametrize(("patch", "side"), [(1, 1), (2, 2), (4, 4), (7, 7), (8, 8), (16, 8)])
def test_blocks_fit_into_patches(patch: int, side: int) -> None:
    assert fitting_side(patch) == side


@pytest.mark.parametrize(("patch", "side"), [(14, 7), (12, 6), (11, 8), (22, 8), (9, 3)])
def test_blocks_of_odd_patches_are_not_tiny(patch: int, side: int) -> None:
    assert fitting_side(patch) == side


@pytest.mark.parametrize("payload", [b"\xff" * 9, b"\x80"])
def test_lengths_that_do_not_end_are_refused(payload: bytes) -> None:
    coder = TransformCoder((80, 80, 3))  # two streams
    with pytest.raises(InputError, match="32 bits"):
        coder.decode(payload, 75)


@pytest.mark.parametrize(
    ("coder", "quality", "num_bytes", "digest"),
    [
        (TransformCoder((32, 32, 3)), 50, 115, "ae0431a7f3b75a40"),
        (TransformCoder((32, 32, 3)), 90, 428, "0bf4ea92469271fd"),
        (TransformCoder.for_mosaic((16, 16, 3), patch_size=4), 50, 40, "a2c5b5233d7b92f4"),
        (TransformCoder.for_mosaic((16, 16, 3), patch_size=4), 90, 131, "47a3e4f51b2dc2e0"),
    ],
)
def test_a_picture_gives_the_bytes_it_always_gave(
    coder: TransformCoder, quality: int, num_bytes: int, digest: str
) -> None:
    """Coefficients are floats before they are rounded; none here is nearer than 6e-5 to a tie."""
    row, column, channel = np.indices(coder.shape)
    waves = np.abs((7 * row + 3 * column + 20 * channel) % 128 - 64)
    waves += np.abs((2 * row + 11 * column) % 90 - 45)
    payload = coder.encode((2 * waves + row * column * 7 % 13).astype(np.uint8), quality)
    assert len(payload) == num_bytes
    assert hashlib.sha256(payload).hexdigest()[:16] == digest


@pytest.mark.parametrize(
    ("coder", "expected"),
    [
        (TransformCoder((32, 32, 3)), "4a0890297938f4ea"),
        (TransformCoder((16, 16, 3), 4, is_mosaic=True), "2dd9247e73e855c1"),
        (TransformCoder((9, 530, 1)), "15599435528bedbb"),
    ],
)
def test_files_written_today_are_read_alike_for_ever(coder: TransformCoder, expected: str) -> None:
    payload = bytes([90]) + b"".join(hashlib.sha256(bytes([n])).digest() for n in range(8))
    pixels = np.array([coder.decode(payload, quality) for quality in (40, 75, 95)])
    assert hashlib.sha256(pixels.tobytes()).hexdigest()[:16] == expected
