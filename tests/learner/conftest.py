from __future__ import annotations

import pytest
from small_learner import TaughtPixels, recipe

from remnant.methods import METHODS
from remnant.recipes import RECIPES


@pytest.fixture(autouse=True)
def pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "pixels", TaughtPixels)
    monkeypatch.setitem(RECIPES, "cifar100-mini-pixels", recipe)
