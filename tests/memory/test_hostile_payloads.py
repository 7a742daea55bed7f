"""Decoding bytes that no encoder wrote: an image of the right shape, or one clear error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from remnant.errors import InputError
from remnant.memory import Candidate, Codec, Exemplar
from remnant.randomness import generator
from tests.support.all_codecs import ALL, make_codec
from tests.support.strategies import smooth

SHAPE = (16, 20, 3)


def mutate(payload: bytes, rng: np.random.Generator) -> bytes:
    """A payload with bytes changed, cut off, put in, repeated or made up."""
    how, place = rng.integers(6), int(rng.integers(len(payload) + 1))
    if how == 0:
        return payload[:place]
    if how == 1:
        return payload + rng.bytes(int(rng.integers(1, 64)))
    if how == 2:
        return payload[:place] + rng.bytes(int(rng.integers(1, 8))) + payload[place:]
    if how == 3:
        return rng.bytes(int(rng.integers(0, 600)))
    if how == 4:
        return payload[place:] + payload[:place]
    changed = bytearray(payload)
    for _ in range(int(rng.integers(1, 9))):
        index = int(rng.integers(len(payload)))
        changed[index] = int(rng.choice([0, 0xFF, changed[index] ^ 1 << rng.integers(8)]))
    return bytes(changed)


def hostile(codec: Codec, count: int) -> Iterator[Exemplar]:
    rng = np.random.default_rng(7)
    honest = [codec.encode(Candidate(smooth(SHAPE, seed)), generator(seed)) for seed in range(4)]
    for index in range(count):
        exemplar = honest[index % len(honest)]
        payload = mutate(exemplar.payload, rng)
        yield Exemplar(payload, exemplar.positions)


def survives(codec: Codec, exemplar: Exemplar) -> bool:
    """Whether it decodes; anything but a right image or an InputError fails the test."""
    try:
        codec.check(exemplar)
        image, is_known = codec.decode(exemplar)
    except InputError:
        return False
    assert (image.shape, image.dtype) == (SHAPE, np.uint8)
    assert (is_known is None) == (codec.grid is None)
    again, _ = codec.decode(exemplar)
    assert np.array_equal(image, again)
    return True


@pytest.mark.timeout(60)
@pytest.mark.parametrize("choice", ALL, ids=str)
def test_a_hostile_payload_decodes_to_an_image_or_is_refused(
    choice: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    codec = make_codec(choice, SHAPE)
    for exemplar in hostile(codec, 25):
        survives(codec, exemplar)
    assert capfd.readouterr() == ("", "")  # libraries keep quiet


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("choice", ALL, ids=str)
def test_ten_thousand_hostile_payloads_decode_or_are_refused(choice: dict[str, Any]) -> None:
    codec = make_codec(choice, SHAPE)
    for exemplar in hostile(codec, 10_000 // len(ALL) + 1):
        survives(codec, exemplar)


@pytest.mark.parametrize("choice", ALL, ids=str)
def test_an_empty_payload_is_no_exception(choice: dict[str, Any]) -> None:
    codec = make_codec(choice, SHAPE)
    positions = codec.encode(Candidate(smooth(SHAPE, 0)), generator(0)).positions
    survives(codec, Exemplar(b"", positions))
