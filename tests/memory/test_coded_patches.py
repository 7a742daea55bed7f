from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from remnant.errors import InputError
from remnant.images import count_visible, patches_to_pixels
from remnant.memory import Candidate, Exemplar
from remnant.memory.codecs.coded_patches import (
    CodedPatchCodec,
    CodedPatchesConfig,
    Mosaic,
    choose_patches,
)
from remnant.randomness import generator
from tests.support.strategies import images, smooth

SHAPE = (32, 32, 3)


def splitmix64(number: int) -> int:
    """Written from the definition, in integers of any size."""
    state = (number + 0x9E3779B97F4A7C15) % 2**64
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
    return state ^ state >> 31


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 65_535), st.integers(1, 300), st.data())
def test_a_seed_stands_for_the_patches_with_the_smallest_hashes(
    seed: int, num_patches: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, num_patches))
    ranked = sorted(range(num_patches), key=lambda patch: splitmix64((seed << 32) + patch))
    known = choose_patches(np.array(seed), num_patches, count)
    assert sorted(ranked[:count]) == np.flatnonzero(known).tolist()


def test_files_written_today_are_read_alike_for_ever() -> None:
    known = choose_patches(np.array([0, 0xBEEF]), 64, 16)[1]
    expected = [3, 5, 6, 11, 16, 21, 24, 26, 29, 40, 43, 44, 47, 50, 53, 62]
    assert np.flatnonzero(known).tolist() == expected


def test_every_patch_and_every_pair_of_patches_is_kept_equally_often() -> None:
    num_seeds, num_patches, count = 8_192, 16, 4
    seeds = range(0, 65_536, 65_536 // num_seeds)
    chosen = choose_patches(np.array(seeds), num_patches, count)
    together = chosen.T.astype(np.int64) @ chosen.astype(np.int64)
    singles = together.diagonal() / num_seeds
    pairs = together[~np.eye(num_patches, dtype=bool)] / num_seeds
    # Five standard deviations of a share among so many draws.
    assert np.abs(singles - 1 / 4).max() < 5 * (1 / 4 * 3 / 4 / num_seeds) ** 0.5
    chance = count * (count - 1) / num_patches / (num_patches - 1)
    assert np.abs(pairs - chance).max() < 5 * (chance * (1 - chance) / num_seeds) ** 0.5


def test_the_generator_alone_decides_which_patches_are_kept() -> None:
    codec = CodedPatchCodec(CodedPatchesConfig(), SHAPE)
    first = [
        codec.encode(Candidate(smooth(SHAPE, 1)), generator(seed)).positions for seed in range(30)
    ]
    second = [
        codec.encode(Candidate(smooth(SHAPE, 2)), generator(seed)).positions for seed in range(30)
    ]
    assert first == second
    assert len(set(first)) == 30
    assert {len(positions) for positions in first} == {2}


@pytest.mark.parametrize("through", ["transform", "jpeg", "webp"])
@pytest.mark.parametrize("positions", ["seed", "bitmap"])
@settings(max_examples=40, deadline=None)
@given(images(divisor=2), st.sampled_from([0.0, 0.3, 0.75, 0.9]), st.integers(0, 9))
def test_patches_return_to_where_they_were(
    through: Any, positions: Any, image: np.ndarray, mask_ratio: float, seed: int
) -> None:
    num_patches = image.shape[0] * image.shape[1] // 4
    assume(count_visible(num_patches, mask_ratio) > 0)
    # A colour per patch, so that a patch in another's place would show; grey, to lose nothing.
    ramp = np.arange(num_patches).reshape(image.shape[0] // 2, -1) * (255 // max(1, num_patches))
    plain = ramp.repeat(2, axis=0).repeat(2, axis=1)[..., None].repeat(image.shape[2], axis=2)
    plain = plain.astype(np.uint8)
    config = CodedPatchesConfig(
        patch_size=2, mask_ratio=mask_ratio, through=through, positions=positions, quality=100
    )
    codec = CodedPatchCodec(config, image.shape)
    exemplar = codec.encode(Candidate(plain), generator(seed))
    codec.check(exemplar)
    decoded, is_known = codec.decode(exemplar)
    assert is_known is not None
    assert np.array_equal(is_known, codec.known_patches(exemplar))
    assert is_known.sum() == count_visible(num_patches, mask_ratio)
    is_stored = patches_to_pixels(is_known, image.shape[:2])
    assert not decoded[~is_stored].any()
    error = np.abs(decoded[is_stored].astype(int) - plain[is_stored])
    assert error.mean() < 8


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(1, 3))
def test_a_mosaic_of_any_number_of_patches_comes_apart_again(count: int, side: int) -> None:
    patches = np.arange(count * side * side * 3, dtype=np.uint8).reshape(count, side, side, 3)
    mosaic = Mosaic(count, side, 3)
    picture = mosaic.lay(patches)
    assert picture.shape == mosaic.shape
    assert np.array_equal(mosaic.take_apart(picture), patches)
    assert mosaic.columns - mosaic.rows in (0, 1)
    assert mosaic.rows * mosaic.columns - count < mosaic.columns


@pytest.mark.parametrize("positions", [b"", b"\0", b"\0\0\0"])
def test_positions_of_another_length_are_refused(positions: bytes) -> None:
    codec = CodedPatchCodec(CodedPatchesConfig(), SHAPE)
    with pytest.raises(InputError, match="2 bytes of positions"):
        codec.check(Exemplar(b"", positions))


def test_a_bitmap_that_names_too_many_patches_is_refused() -> None:
    codec = CodedPatchCodec(CodedPatchesConfig(positions="bitmap"), SHAPE)
    with pytest.raises(InputError, match="16 of 64"):
        codec.check(Exemplar(b"", b"\xff" * 8))
