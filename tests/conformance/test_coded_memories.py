"""Methods learn from coded exemplars, and remember more of them than of raw ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from remnant.memory import MemoryConfig
from remnant.testing.method_checks import check_learning, check_memory
from tests.support.tiny_methods import TRIALS

CODED: dict[str, tuple[str, dict[str, Any]]] = {
    "bimae with coded patches": ("bimae", {"name": "coded-patches", "patch_size": 4}),
    "er with webp": ("er", {"name": "webp", "quality": 60}),
    "er with jpeg": ("er", {"name": "jpeg", "quality": 60}),
}


@pytest.mark.parametrize(("method", "codec"), CODED.values(), ids=CODED)
def test_it_learns_with_coded_exemplars(method: str, codec: dict[str, Any]) -> None:
    memory = MemoryConfig.parse({"budget": "2images/class", "codec": codec})
    trial = replace(TRIALS[method](), memory=memory)
    check_learning(trial)
    check_memory(trial)
    stored = trial.whole.method.memory
    assert stored is not None
    assert min(stored.counts) > 2  # of two raw images
