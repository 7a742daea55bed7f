from __future__ import annotations

import pytest

from remnant.methods import METHODS
from tests.support.small_learner import TaughtPixels


@pytest.fixture(autouse=True)
def pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "pixels", TaughtPixels)
