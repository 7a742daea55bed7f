"""The pixel method among the methods, and a store that it was taught into."""

from __future__ import annotations

from pathlib import Path

import pytest

from remnant.learner import learn_into_store
from remnant.methods import METHODS
from tests.support.small_learner import TINY, TaughtPixels, stripes


@pytest.fixture(autouse=True)
def pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "pixels", TaughtPixels)


@pytest.fixture
def store(pixels: None, tmp_path: Path) -> Path:
    """Stripes at the columns a and c."""
    path = tmp_path / "stripes.remnant"
    learn_into_store(path, *stripes("a", "c"), **TINY)
    return path
