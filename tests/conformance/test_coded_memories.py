"""Methods learn from coded exemplars, and remember more of them than of raw ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_methods import hurry, result_of, tiny_config

from remnant.experiment import run
from remnant.memory import MemoryConfig

CODED: dict[str, tuple[str, dict[str, Any]]] = {
    "bimae with coded patches": ("bimae", {"name": "coded-patches", "patch_size": 4}),
    "er with webp": ("er", {"name": "webp", "quality": 60}),
    "er with jpeg": ("er", {"name": "jpeg", "quality": 60}),
}


@pytest.mark.numeric
@pytest.mark.parametrize(("method", "codec"), CODED.values(), ids=CODED)
def test_it_learns_with_coded_exemplars(
    method: str, codec: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    memory = MemoryConfig.model_validate({"budget": "2images/class", "codec": codec})
    run(tiny_config(method).model_copy(update={"memory": memory}), tmp_path / "run")
    result = result_of(tmp_path / "run")
    assert result["finished"] is True
    newest = [row[-1] for row in result["accuracy_matrix"]]
    assert min(newest) > 75  # all are right; guessing gives 50, then 25
    stored = result["memory"]
    assert stored["used_bytes"] <= stored["budget_bytes"]
    assert min(stored["exemplars_per_class"]) > 2  # of two raw images
