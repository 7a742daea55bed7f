"""Runs whose memory is too large to be held decoded."""

from __future__ import annotations

from pathlib import Path

import pytest
from kills import differences

from remnant.memory import replay
from remnant.runs.experiment import run
from tests.conformance.test_methods import hurry, tiny_config


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["er", "bimae"])
def test_a_memory_that_is_decoded_as_it_is_read_gives_the_same_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tiny_config(name), tmp_path / "held")
    monkeypatch.setattr(replay, "MAX_DECODED_BYTES", 0)
    run(tiny_config(name), tmp_path / "read")
    assert differences(tmp_path / "held", tmp_path / "read") == []
