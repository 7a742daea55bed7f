from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remnant.errors import InputError
from remnant.memory import Candidate, Exemplar, Memory, MemoryConfig
from remnant.memory.codecs.boxed import BoxedCodec, BoxedConfig
from remnant.randomness import generator
from tests.support.strategies import pixels

RNG = generator(0)


def slow_code(image: np.ndarray, box: tuple[int, int, int, int], factor: int) -> np.ndarray:
    """[cim] pixel by pixel: in the box as it was, elsewhere the mean of its square."""
    height, width, channels = image.shape
    found = np.empty_like(image)
    for row in range(height):
        for column in range(width):
            top, left = row // factor * factor, column // factor * factor
            square = image[top : top + factor, left : left + factor].reshape(-1, channels)
            is_in = box[0] <= row < box[0] + box[2] and box[1] <= column < box[1] + box[3]
            for channel in range(channels):
                values = [int(value) for value in square[:, channel]]
                mean = (sum(values) + len(values) // 2) // len(values)
                found[row, column, channel] = image[row, column, channel] if is_in else mean
    return found


@st.composite
def boxed_images(draw: st.DrawFn) -> tuple[np.ndarray, tuple[int, int, int, int], int]:
    height, width = draw(st.integers(1, 13)), draw(st.integers(1, 13))
    image = pixels((height, width, draw(st.sampled_from([1, 3]))), draw(st.integers(0, 999)))
    top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
    down, across = draw(st.integers(1, height - top)), draw(st.integers(1, width - left))
    return image, (top, left, down, across), draw(st.integers(2, 5))


@given(boxed_images())
@settings(max_examples=60, deadline=None)
def test_the_box_comes_back_as_it_was_and_the_rest_as_means(
    case: tuple[np.ndarray, tuple[int, int, int, int], int],
) -> None:
    image, box, factor = case
    codec = BoxedCodec(BoxedConfig(factor=factor), image.shape)
    exemplar = codec.encode(Candidate(image, box=box), RNG)
    codec.check(exemplar)
    found, known = codec.decode(exemplar)
    assert known is None
    assert np.array_equal(found, slow_code(image, box, factor))
    assert len(exemplar.payload) <= image.size + 4  # never more than the image and its box


def test_a_factor_beyond_the_image_takes_no_more_memory() -> None:
    image = pixels((8, 5, 3), 0)
    codec = BoxedCodec(BoxedConfig(factor=10**9), image.shape)
    found, _ = codec.decode(codec.encode(Candidate(image, box=(1, 1, 2, 3)), RNG))
    assert np.array_equal(found, slow_code(image, (1, 1, 2, 3), 8))


@pytest.mark.parametrize(("shape", "numbers"), [((32, 32, 3), 4), ((300, 20, 3), 8)])
def test_a_box_of_whole_squares_costs_its_share_and_a_quarter_of_the_rest(
    shape: tuple[int, int, int], numbers: int
) -> None:
    codec = BoxedCodec(BoxedConfig(), shape)
    exemplar = codec.encode(Candidate(pixels(shape, 1), box=(4, 2, 16, 8)), RNG)
    inside, whole = 16 * 8 * 3, shape[0] * shape[1] * 3
    assert len(exemplar.payload) == numbers + inside + (whole - inside) // 4


def test_an_image_without_a_box_keeps_its_middle() -> None:
    image = pixels((8, 8, 3), 2)
    codec = BoxedCodec(BoxedConfig(middle_ratio=0.5), image.shape)
    found, _ = codec.decode(codec.encode(Candidate(image), RNG))
    assert np.array_equal(found, slow_code(image, (2, 2, 4, 4), 2))


@pytest.mark.parametrize("box", [(0, 0, 0, 4), (-1, 0, 2, 2), (5, 5, 4, 1), (0, 0, 1, 9)])
def test_a_box_outside_the_image_is_refused(box: tuple[int, int, int, int]) -> None:
    codec = BoxedCodec(BoxedConfig(), (8, 8, 3))
    with pytest.raises(InputError, match="a box must lie within an image of 8 x 8"):
        codec.encode(Candidate(pixels((8, 8, 3), 0), box=box), RNG)


@pytest.mark.parametrize(
    ("payload", "sentence"),
    [
        (b"\0\0", "4 bytes for its box"),
        (bytes([0, 0, 9, 1]), "its box inside the image"),
        (bytes([0, 0, 2, 2]) + bytes(11), "must have 61 bytes; got 15"),
    ],
)
def test_bytes_that_no_image_gave_are_refused(payload: bytes, sentence: str) -> None:
    codec = BoxedCodec(BoxedConfig(), (8, 8, 3))
    with pytest.raises(InputError, match=sentence):
        codec.decode(Exemplar(payload))


def test_smaller_boxes_leave_room_for_more_exemplars() -> None:
    """[cim] boxes of three tenths: more than twice as many as whole images."""
    counts = []
    for side in (8, 16):
        memory = Memory(
            MemoryConfig.parse({"budget": "20images/class", "codec": "boxed"}), (32, 32, 3), 0
        )
        images = (pixels((32, 32, 3), seed) for seed in range(99))
        memory.add_class(0, "noise", (Candidate(image, box=(0, 0, side, side)) for image in images))
        counts.append(memory.counts[0])
        assert memory.nbytes == sum(memory.exemplar_bytes(0)) <= memory.budget_bytes
    assert counts[0] > counts[1] > 40
    shown = memory.present([Candidate(pixels((32, 32, 3), 0), box=(0, 0, 32, 32))])
    assert shown is not None
