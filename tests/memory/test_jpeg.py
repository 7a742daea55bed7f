from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from remnant.memory import Candidate, Exemplar
from remnant.memory.codecs.jpeg import JpegCodec, JpegCoder, JpegConfig, _split, flat_step
from remnant.randomness import generator
from tests.support.strategies import Shape, images, smooth


def file_of(image: np.ndarray, **options: Any) -> bytes:
    """What Pillow writes, with every header."""
    stream = BytesIO()
    Image.fromarray(image.squeeze(2) if image.shape[2] == 1 else image).save(
        stream, "JPEG", **options
    )
    return stream.getvalue()


def pixels_of(file: bytes, shape: Shape) -> np.ndarray:
    return np.asarray(Image.open(BytesIO(file))).reshape(shape)


@settings(max_examples=40, deadline=None)
@given(images(), st.sampled_from([1, 30, 75, 100]), st.sampled_from(["4:4:4", "4:2:2", "4:2:0"]))
def test_it_decodes_to_what_the_whole_file_decodes_to(
    image: np.ndarray, quality: int, subsampling: Any
) -> None:
    config = JpegConfig(quality=quality, subsampling=subsampling, weighting="standard")
    codec = JpegCodec(config, image.shape)
    decoded, is_known = codec.decode(codec.encode(Candidate(image), generator(0)))
    chroma = {"subsampling": subsampling} if image.shape[2] == 3 else {}
    assert is_known is None
    expected = pixels_of(file_of(image, quality=quality, **chroma), image.shape)
    assert np.array_equal(decoded, expected)


@settings(max_examples=40, deadline=None)
@given(images(), st.integers(1, 100))
def test_flat_weighting_quantises_all_coefficients_alike(image: np.ndarray, quality: int) -> None:
    codec = JpegCodec(JpegConfig(quality=quality), image.shape)
    decoded, _ = codec.decode(codec.encode(Candidate(image), generator(0)))
    tables = [[flat_step(quality)] * 64] * (1 if image.shape[2] == 1 else 2)
    chroma = {"subsampling": "4:4:4"} if image.shape[2] == 3 else {}
    expected = pixels_of(file_of(image, qtables=tables, **chroma), image.shape)
    assert np.array_equal(decoded, expected)


def test_a_payload_is_the_scan_without_headers_stuffing_and_end() -> None:
    image = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    codec = JpegCodec(JpegConfig(quality=90, weighting="standard"), image.shape)
    payload = codec.encode(Candidate(image), generator(0)).payload
    file = file_of(image, quality=90, subsampling="4:4:4")
    assert b"\xff\x00" in file  # or the test would show nothing
    assert file.endswith(payload.replace(b"\xff", b"\xff\x00") + b"\xff\xd9")
    assert len(file) - len(payload) > 600


def test_the_tables_are_stored_once_and_hold_no_word_about_the_file() -> None:
    codec = JpegCodec(JpegConfig(quality=60), (32, 32, 3))
    again = JpegCodec(JpegConfig(quality=60), (32, 32, 3))
    assert codec.tables == again.tables
    assert codec.tables != JpegCodec(JpegConfig(quality=61), (32, 32, 3)).tables
    assert codec.tables.startswith(b"\xff\xd8\xff\xdb")
    assert b"JFIF" not in codec.tables
    assert 500 < len(codec.tables) < 700


def test_with_a_target_the_first_byte_says_the_quality() -> None:
    image = smooth((24, 24, 3), 1)
    target = JpegCodec(JpegConfig(target_bytes=120), image.shape)
    payload = target.encode(Candidate(image), generator(0)).payload
    fixed = JpegCodec(JpegConfig(quality=payload[0]), image.shape)
    assert payload[1:] == fixed.encode(Candidate(image), generator(0)).payload
    decoded = fixed.decode(Exemplar(payload[1:]))[0]
    assert np.array_equal(target.decode(Exemplar(payload))[0], decoded)


@pytest.mark.parametrize(("quality", "step"), [(1, 255), (25, 96), (50, 48), (75, 24), (100, 1)])
def test_the_step_follows_the_scale_of_libjpeg(quality: int, step: int) -> None:
    assert flat_step(quality) == step


@pytest.mark.parametrize("shape", [(7, 300, 3), (64, 40, 1), (8, 8, 3)])
@pytest.mark.parametrize("quality", [5, 75])
def test_shared_headers_are_those_of_a_whole_file(shape: Shape, quality: int) -> None:
    """They are made from a small picture: a stranger's file may tell of a huge one."""
    coder = JpegCoder(shape, "4:2:0", "standard")
    assert coder.tables(quality) == _split(coder._file(np.zeros(shape, np.uint8), quality))[0]
    huge = JpegCoder((65_000, 65_000, 3)).tables(50)  # 12 GB of pixels
    assert len(huge) == len(JpegCoder((8, 8, 3)).tables(50))
