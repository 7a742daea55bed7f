"""The compiled loops against the plain ones, which run where numba is not installed."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remnant.memory.codecs.transform import TransformCoder, transform_codec
from tests.support.strategies import Shape, images, pixels, smooth

pytest.importorskip("numba", reason="the extra `fast` is not installed")
SHAPES: list[Shape] = [(32, 32, 3), (5, 20, 3), (1, 1, 1), (9, 530, 1), (80, 80, 3)]


def decode_plainly(coder: TransformCoder, payloads: Sequence[bytes], quality: int) -> np.ndarray:
    with patch.object(transform_codec, "find_compiled", lambda _: None):
        return np.array(coder.decode_many(payloads, quality))


@settings(max_examples=25, deadline=None)
@given(images(), st.sampled_from([1, 20, 75, 100]), st.integers(1, 8), st.booleans())
def test_a_picture_gives_the_same_bytes_and_the_same_pixels(
    image: np.ndarray, quality: int, side: int, is_mosaic: bool
) -> None:
    coder = TransformCoder(image.shape, side, is_mosaic=is_mosaic)
    payload = coder.encode(image, quality)
    with patch.object(transform_codec, "find_compiled", lambda _: None):
        assert coder.encode(image, quality) == payload
    plain = decode_plainly(coder, [payload], quality)
    assert np.array_equal(coder.decode_many([payload], quality), plain)


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=6, deadline=None)
@given(st.lists(st.binary(min_size=2, max_size=300), min_size=1, max_size=4), st.booleans())
def test_any_bytes_decode_to_the_same_pixels(
    shape: Shape, parts: list[bytes], is_mosaic: bool
) -> None:
    # Two streams begin with a length.
    coder = TransformCoder(shape, is_mosaic=is_mosaic)
    payloads = [bytes([len(part) // 2 % 128]) * 3 + part for part in parts]
    for quality in (5, 75, 100):
        plain = decode_plainly(coder, payloads, quality)
        assert np.array_equal(coder.decode_many(payloads, quality), plain)


@pytest.mark.parametrize("shape", SHAPES)
def test_many_pictures_are_coded_as_each_alone(shape: Shape) -> None:
    coder = TransformCoder(shape)
    pictures = [smooth(shape, 0), pixels(shape, 1), *(np.full(shape, x, np.uint8) for x in (0, 9))]
    payloads = [coder.encode(picture, 80) for picture in pictures]
    with patch.object(transform_codec, "find_compiled", lambda _: None):
        assert [coder.encode(picture, 80) for picture in pictures] == payloads
    alone = [coder.decode(payload, 80) for payload in payloads]
    assert np.array_equal(coder.decode_many(payloads, 80), alone)
    assert np.array_equal(decode_plainly(coder, payloads, 80), alone)
    assert len(coder.decode_many([], 80)) == 0
