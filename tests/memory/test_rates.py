from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from remnant.images import patches_to_pixels
from remnant.memory import Candidate, MemoryConfig, build_codec
from remnant.memory.codecs import CodecConfig
from remnant.memory.codecs.rates import highest_passing, lowest_passing
from remnant.metrics import psnr
from remnant.randomness import generator
from tests.support.strategies import pixels, smooth

SHAPE = (16, 16, 3)


def codec_config(**choice: Any) -> CodecConfig:
    return MemoryConfig.model_validate({"codec": choice}).codec


def sizes_and_scores(image: np.ndarray, **choice: Any) -> tuple[int, float]:
    """Bytes of the payload, and PSNR over the stored pixels."""
    codec = build_codec(codec_config(**choice), image.shape)
    exemplar = codec.encode(Candidate(image), generator(1))
    decoded, known = codec.decode(exemplar)
    if known is None:
        return len(exemplar.payload), float(psnr(image, decoded))
    is_stored = patches_to_pixels(known, image.shape[:2])
    return len(exemplar.payload), float(psnr(image[is_stored][None], decoded[is_stored][None]))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 101))
def test_both_searches_find_the_edge(edge: int) -> None:
    assert lowest_passing(lambda quality: quality >= edge) == min(max(edge, 1), 100)
    assert highest_passing(lambda quality: quality <= edge) == min(max(edge, 1), 100)


@settings(max_examples=60, deadline=None)
@given(st.sets(st.integers(1, 100), min_size=1))
def test_what_a_search_finds_passes_even_if_the_test_is_not_monotonic(passing: set[int]) -> None:
    assert lowest_passing(passing.__contains__) in passing | {100}
    assert highest_passing(passing.__contains__) in passing | {1}


LOSSY = [
    {"name": "transform"},
    {"name": "coded-patches"},
    {"name": "jpeg"},
    {"name": "webp"},
    {"name": "coded-patches", "through": "jpeg"},
    {"name": "coded-patches", "through": "webp"},
]


@pytest.mark.parametrize("choice", LOSSY, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_a_target_of_psnr_is_reached_with_no_more_bytes_than_the_best_quality(
    choice: dict[str, Any], seed: int
) -> None:
    image = smooth(SHAPE, seed)
    _, best = sizes_and_scores(image, **choice, quality=100)
    for target in (24.0, 30.0):
        size, score = sizes_and_scores(image, **choice, target_psnr=target)
        assert score >= min(target, best)
    finest, _ = sizes_and_scores(image, **choice, target_psnr=35.0)
    assert size <= finest


@pytest.mark.parametrize("choice", LOSSY, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_a_target_of_bytes_is_kept_where_the_lowest_quality_keeps_it(
    choice: dict[str, Any], seed: int
) -> None:
    image = smooth(SHAPE, seed)
    least, _ = sizes_and_scores(image, **choice, quality=1)
    for target in (1, 40, 90, 400):
        size, score = sizes_and_scores(image, **choice, target_bytes=target)
        assert size <= max(target, least + 1)  # one byte may state the quality
    _, worst = sizes_and_scores(image, **choice, quality=1)
    assert score > worst


def test_a_codec_without_a_rate_gets_a_quality() -> None:
    config = codec_config(name="webp")
    assert config.model_dump()["quality"] == 75
    assert MemoryConfig.model_validate({"codec": config.model_dump()}).codec == config


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"name": "jpeg", "quality": 50, "target_psnr": 30}, "got quality and target_psnr"),
        (
            {"name": "webp", "target_bytes": 50, "target_psnr": 30},
            "got target_bytes and target_psnr",
        ),
        ({"name": "webp", "lossless": True, "quality": 50}, "loses nothing has no quality"),
        ({"name": "downscaled", "target_bytes": 50}, "loses nothing has no target_bytes"),
        ({"name": "webp", "quality": 0}, "greater than or equal to 1"),
        ({"name": "webp", "quality": 101}, "less than or equal to 100"),
    ],
)
def test_rates_that_contradict_each_other_are_refused(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        codec_config(**choice)


def test_noise_and_smooth_images_differ_in_size() -> None:
    """The pictures of this file are worth coding, or targets would mean nothing."""
    noisy, _ = sizes_and_scores(pixels(SHAPE, 0), name="webp")
    plain, _ = sizes_and_scores(smooth(SHAPE, 0), name="webp")
    assert plain < noisy / 3
