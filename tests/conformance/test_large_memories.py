"""Runs whose memory is too large to be held decoded, and with it what is computed from it."""

from __future__ import annotations

import pytest

from remnant import long_rows
from remnant.memory import replay
from tests.support.tiny_methods import TRIALS, VARIANTS

ALL = TRIALS | VARIANTS


# The last two show new images through the codec, which makes a twin of every image of a task.
@pytest.mark.parametrize("name", ["er", "bic", "bimae", "mecil", "er, convolutions"])
def test_what_is_read_as_it_is_needed_gives_the_same_run(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, metadata = ALL[name]().whole.state()
    monkeypatch.setattr(replay, "MAX_DECODED_BYTES", 0)
    monkeypatch.setattr(long_rows, "HELD_BYTES", 0)
    read, same_metadata = ALL[name]().whole.state()
    assert held.keys() == read.keys()
    assert [key for key in held if held[key].tobytes() != read[key].tobytes()] == []
    assert metadata == same_metadata
