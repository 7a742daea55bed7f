from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from remnant.errors import InputError
from remnant.images import Shape, count_visible
from remnant.memory import (
    CODECS,
    Candidate,
    Codec,
    CodecConfig,
    Exemplar,
    Memory,
    MemoryConfig,
    PatchCodec,
    PatchesConfig,
    RawCodec,
    RawConfig,
    build_codec,
)
from remnant.randomness import generator
from tests.support.all_codecs import ALL, EXACT, LOSSY, PARTIAL, make_codec
from tests.support.strategies import images, pixels, smooth


@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("choice", EXACT, ids=str)
@given(image=images())
def test_lossless_codecs_return_an_image_bit_for_bit(
    choice: dict[str, Any], image: np.ndarray
) -> None:
    codec = make_codec(choice, image.shape)
    exemplar = codec.encode(Candidate(image), generator(0))
    codec.check(exemplar)
    decoded, is_known = codec.decode(exemplar)
    assert is_known is None
    assert np.array_equal(decoded, image)


@settings(max_examples=15, deadline=None)
@pytest.mark.parametrize("choice", LOSSY + PARTIAL, ids=str)
@given(image=images(divisor=2))
def test_any_size_is_stored_the_same_way_twice(choice: dict[str, Any], image: np.ndarray) -> None:
    if choice in PARTIAL and image.shape[0] * image.shape[1] < 16:
        return  # fewer than four patches: a quarter of them is none
    codec = make_codec(choice, image.shape)
    exemplar = codec.encode(Candidate(image), generator(5))
    codec.check(exemplar)
    assert codec.encode(Candidate(image), generator(5)) == exemplar
    assert make_codec(choice, image.shape).tables == codec.tables
    decoded, is_known = codec.decode(exemplar)
    assert (decoded.shape, decoded.dtype) == (image.shape, np.uint8)
    assert (is_known is None) == (choice not in PARTIAL)
    assert np.array_equal(codec.decode(exemplar)[0], decoded)


@pytest.mark.parametrize("choice", [*EXACT, *LOSSY], ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 3), (1, 17, 3), (33, 3, 1), (9, 41, 3)])
def test_odd_shapes_come_back_whole_and_near(
    choice: dict[str, Any], shape: tuple[int, int, int]
) -> None:
    codec = make_codec(choice, shape)
    image = smooth(shape, 2)
    decoded, _ = codec.decode(codec.encode(Candidate(image), generator(0)))
    error = np.abs(decoded.astype(int) - image).mean()
    assert error < (30 if choice["name"] == "downscaled" else 16)


@pytest.mark.parametrize("choice", ALL, ids=str)
def test_a_codec_is_rebuilt_from_its_config(choice: dict[str, Any]) -> None:
    codec = make_codec(choice, (16, 16, 3))
    text = codec.config.model_dump_json()
    again = make_codec(type(codec.config).model_validate_json(text).model_dump(), (16, 16, 3))
    assert again.config == codec.config
    image = smooth((16, 16, 3), 3)
    assert again.encode(Candidate(image), generator(1)) == codec.encode(
        Candidate(image), generator(1)
    )


class FlatConfig(CodecConfig):
    """The mean colour of an image, or of the part of it that matters."""

    name: Literal["flat"] = "flat"


class FlatCodec(Codec):
    Config = FlatConfig

    def __init__(self, config: FlatConfig, image_shape: Shape) -> None:
        super().__init__(config, image_shape)
        self.payload_bytes = image_shape[2]

    def encode(self, candidate: Candidate, generator: torch.Generator) -> Exemplar:
        top, left, height, width = candidate.box or (0, 0, *self.image_shape[:2])
        part = candidate.image[top : top + height, left : left + width]
        return Exemplar(part.mean(axis=(0, 1)).astype(np.uint8).tobytes())

    def decode(self, exemplar: Exemplar) -> tuple[np.ndarray, None]:
        return np.full(self.image_shape, np.frombuffer(exemplar.payload, np.uint8)), None


def test_a_codec_from_elsewhere_is_chosen_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CODECS, "flat", FlatCodec)  # taken out afterwards, unlike a registered one
    assert CODECS.register(FlatCodec) is FlatCodec
    memory = Memory(MemoryConfig.parse({"codec": "flat"}), (4, 4, 3), seed=0)
    image = np.zeros((4, 4, 3), np.uint8)
    image[1:, 2:] = 90
    memory.add_class(0, "grey", [Candidate(image, box=(1, 2, 3, 2)), Candidate(image)])
    replay = Memory.from_arrays(*memory.state_arrays()).images()
    assert replay is not None
    assert [one.unique().tolist() for one in replay.images.read(torch.arange(2))] == [[90], [33]]


def test_only_codecs_with_names_of_their_own_are_registered() -> None:
    for thing in (FlatConfig, "raw", Codec):
        with pytest.raises(InputError, match="derived from Codec, with a Config"):
            CODECS.register(thing)  # pyright: ignore[reportArgumentType]

    class Impostor(FlatCodec):
        Config = RawConfig  # pyright: ignore[reportAssignmentType]

    with pytest.raises(InputError, match="already a codec named 'raw'"):
        CODECS.register(Impostor)


@given(images())
def test_raw_returns_an_image_bit_for_bit(image: np.ndarray) -> None:
    codec = RawCodec(RawConfig(), image.shape)
    exemplar = codec.encode(Candidate(image), generator(0))
    decoded, is_known = codec.decode(exemplar)
    assert is_known is None
    assert np.array_equal(decoded, image)
    assert len(exemplar.payload) == codec.exemplar_bytes == image.size


@given(images(divisor=3), st.sampled_from([0.0, 0.1, 0.5]), st.integers(0, 9))
def test_patches_return_the_stored_pixels_where_they_were(
    image: np.ndarray, mask_ratio: float, seed: int
) -> None:
    if count_visible(image.shape[0] * image.shape[1] // 9, mask_ratio) == 0:
        return
    codec = PatchCodec(PatchesConfig(patch_size=3, mask_ratio=mask_ratio), image.shape)
    exemplar = codec.encode(Candidate(image), generator(seed))
    codec.check(exemplar)
    decoded, is_known = codec.decode(exemplar)
    assert is_known is not None
    assert is_known.sum() == codec.num_visible
    for row in range(image.shape[0]):
        for column in range(image.shape[1]):
            known = is_known[row // 3, column // 3]
            expected = image[row, column] if known else np.zeros_like(image[row, column])
            assert np.array_equal(decoded[row, column], expected)
    assert len(exemplar.payload) + len(exemplar.positions) == codec.exemplar_bytes


def test_the_payload_holds_patches_in_reading_order_and_the_bitmap_says_which() -> None:
    image = np.arange(16, dtype=np.uint8).reshape(2, 8, 1)  # four patches of 2 x 2
    codec = PatchCodec(PatchesConfig(patch_size=2, mask_ratio=0.5), image.shape)
    patches = [[0, 1, 8, 9], [2, 3, 10, 11], [4, 5, 12, 13], [6, 7, 14, 15]]
    for seed in range(8):
        exemplar = codec.encode(Candidate(image), generator(seed))
        chosen = [index for index in range(4) if exemplar.positions[0] >> index & 1]
        assert list(exemplar.payload) == [pixel for index in chosen for pixel in patches[index]]


def test_the_generator_alone_decides_which_patches_are_kept() -> None:
    codec = PatchCodec(PatchesConfig(), (32, 32, 3))
    bitmaps = {
        codec.encode(Candidate(pixels((32, 32, 3), 1)), generator(s)).positions for s in range(20)
    }
    assert len(bitmaps) == 20
    again = codec.encode(Candidate(pixels((32, 32, 3), 2)), generator(0)).positions
    assert again in bitmaps


@pytest.mark.parametrize(
    ("config", "shape", "payload", "positions"),
    [
        (PatchesConfig(), (32, 32, 3), 768, 8),
        (PatchesConfig(patch_size=16), (224, 224, 3), 37_632, 25),
        (PatchesConfig(patch_size=4, mask_ratio=0.8), (20, 20, 1), 5 * 16, 4),
        (RawConfig(), (32, 32, 3), 3_072, 0),
        (RawConfig(), (224, 224, 3), 150_528, 0),
    ],
)
def test_an_exemplar_takes_the_bytes_of_the_specification(
    config: RawConfig | PatchesConfig, shape: tuple[int, int, int], payload: int, positions: int
) -> None:
    codec = build_codec(config, shape)
    exemplar = codec.encode(Candidate(pixels(shape, 0)), generator(0))
    assert (len(exemplar.payload), len(exemplar.positions)) == (payload, positions)
    assert (codec.payload_bytes, codec.position_bytes) == (payload, positions)


@pytest.mark.parametrize(
    ("config", "shape", "message"),
    [
        (PatchesConfig(patch_size=5), (32, 32, 3), "must divide"),
        (PatchesConfig(patch_size=16, mask_ratio=0.9), (32, 32, 3), "at least one of 4"),
        (RawConfig(), (32, 32, 4), "1 or 3 channels"),
        (RawConfig(), (0, 32, 3), "sides of 1"),
        (RawConfig(), (16_000, 16_000, 3), "pixels"),
    ],
)
def test_a_codec_that_does_not_suit_the_images_says_why(
    config: RawConfig | PatchesConfig, shape: tuple[int, int, int], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        build_codec(config, shape)


@pytest.mark.parametrize(
    "exemplar",
    [
        Exemplar(b"\0" * 15, b"\x01"),
        Exemplar(b"\0" * 16, b""),
        Exemplar(b"\0" * 16, b"\x03"),
        Exemplar(b"\0" * 16, b"\x00"),
        Exemplar(b"\0" * 16, b"\x10"),  # a fifth patch of four
    ],
)
def test_an_impossible_exemplar_is_refused(exemplar: Exemplar) -> None:
    codec = PatchCodec(PatchesConfig(patch_size=4), (8, 8, 1))
    codec.check(Exemplar(b"\0" * 16, b"\x08"))
    with pytest.raises(InputError):
        codec.check(exemplar)
