"""Runs whose memory is too large to be held decoded."""

from __future__ import annotations

import pytest

from remnant.memory import replay
from tests.support.tiny_methods import TRIALS


@pytest.mark.parametrize("name", ["er", "bimae"])
def test_a_memory_that_is_decoded_as_it_is_read_gives_the_same_run(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, metadata = TRIALS[name]().whole.state()
    monkeypatch.setattr(replay, "MAX_DECODED_BYTES", 0)
    read, same_metadata = TRIALS[name]().whole.state()
    assert held.keys() == read.keys()
    assert [key for key in held if held[key].tobytes() != read[key].tobytes()] == []
    assert metadata == same_metadata
