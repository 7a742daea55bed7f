from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from remnant.errors import InputError
from remnant.memory import Candidate
from remnant.memory.codecs.webp import WebpCodec, WebpConfig, pack_number, unpack_number
from remnant.randomness import generator
from tests.support.strategies import images, pixels, smooth


def file_of(image: np.ndarray, **options: Any) -> bytes:
    stream = BytesIO()
    Image.fromarray(image.squeeze(2) if image.shape[2] == 1 else image).save(
        stream, "WEBP", **options
    )
    return stream.getvalue()


@settings(max_examples=40, deadline=None)
@given(images(), st.sampled_from([1, 50, 100]))
def test_it_decodes_to_what_the_whole_file_decodes_to(image: np.ndarray, quality: int) -> None:
    codec = WebpCodec(WebpConfig(quality=quality), image.shape)
    decoded, is_known = codec.decode(codec.encode(Candidate(image), generator(0)))
    assert is_known is None
    picture = Image.open(BytesIO(file_of(image, quality=quality, method=6)))
    expected = np.asarray(picture.convert("L" if image.shape[2] == 1 else "RGB"))
    assert np.array_equal(decoded, expected.reshape(image.shape))


@settings(max_examples=40, deadline=None)
@given(images())
def test_lossless_webp_returns_an_image_bit_for_bit(image: np.ndarray) -> None:
    codec = WebpCodec(WebpConfig(lossless=True), image.shape)
    decoded, _ = codec.decode(codec.encode(Candidate(image), generator(0)))
    assert np.array_equal(decoded, image)


@pytest.mark.parametrize("shape", [(32, 32, 3), (7, 5, 1), (300, 200, 3)])
@pytest.mark.parametrize("quality", [10, 60, 95])
def test_container_start_code_and_sizes_are_stripped(
    shape: tuple[int, int, int], quality: int
) -> None:
    image = smooth(shape, 1)
    payload = (
        WebpCodec(WebpConfig(quality=quality), shape).encode(Candidate(image), generator(0)).payload
    )
    file = file_of(image, quality=quality, method=6)
    partition_bytes = int.from_bytes(file[20:23], "little") >> 5
    frame = file[30 : 20 + int.from_bytes(file[16:20], "little")]
    assert payload == pack_number(partition_bytes) + frame.rstrip(b"\0")
    assert len(file) - len(payload) >= 28


def test_the_lossless_signature_is_stripped() -> None:
    image = smooth((32, 32, 3), 1)
    payload = (
        WebpCodec(WebpConfig(lossless=True), image.shape)
        .encode(Candidate(image), generator(0))
        .payload
    )
    file = file_of(image, lossless=True, quality=100, method=4, exact=True)
    assert file[25:].rstrip(b"\0") == payload.rstrip(b"\0")


def test_sides_that_webp_cannot_store_are_refused() -> None:
    WebpCodec(WebpConfig(), (16_383, 1, 3))
    with pytest.raises(InputError, match="16,383"):
        WebpCodec(WebpConfig(), (1, 16_384, 3))


def test_grey_stays_grey() -> None:
    image = pixels((9, 9, 1), 5)
    codec = WebpCodec(WebpConfig(lossless=True), image.shape)
    assert np.array_equal(codec.decode(codec.encode(Candidate(image), generator(0)))[0], image)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, (1 << 19) - 1), st.binary(max_size=4))
def test_a_number_returns_with_what_follows_it(number: int, rest: bytes) -> None:
    assert unpack_number(pack_number(number) + rest, max_bits=19) == (number, rest)
    assert len(pack_number(number)) == max(1, -(-number.bit_length() // 7))


@pytest.mark.parametrize("payload", [b"", b"\x80", b"\xff\xff\xff", b"\xff\xff\x7f", b"\x80" * 9])
def test_a_number_that_does_not_end_or_is_too_large_is_refused(payload: bytes) -> None:
    with pytest.raises(InputError, match="19 bits"):
        unpack_number(payload, max_bits=19)
