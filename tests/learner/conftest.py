from __future__ import annotations

import pytest

from remnant.methods import METHODS
from remnant.recipes import RECIPES
from tests.support.small_learner import TaughtPixels, recipe


@pytest.fixture(autouse=True)
def pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "pixels", TaughtPixels)
    monkeypatch.setitem(RECIPES, "cifar100-mini-pixels", recipe)
