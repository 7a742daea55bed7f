"""Methods learn from coded exemplars, and remember more of them than of raw ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_methods import hurry, result_of, tiny_config

from remnant.config import RunConfig
from remnant.experiment import run
from remnant.memory import MemoryConfig

BUDGET = "2images/class"
CODED: dict[str, dict[str, Any]] = {
    "bimae": {"name": "coded-patches", "patch_size": 4, "quality": 60},
    "er": {"name": "webp", "quality": 60},
    "icarl": {"name": "jpeg", "quality": 60},
}


def coded_config(name: str) -> RunConfig:
    memory = MemoryConfig.model_validate({"budget": BUDGET, "codec": CODED[name]})
    return tiny_config(name).model_copy(update={"memory": memory})


@pytest.mark.parametrize("name", CODED)
def test_it_learns_with_coded_exemplars(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    run(coded_config(name), tmp_path / "run")
    result = result_of(tmp_path / "run")
    assert result["finished"] is True
    newest = [row[-1] for row in result["accuracy_matrix"]]
    assert newest[0] > 60  # of two classes
    assert newest[1] > 35  # of four
    memory = result["memory"]
    assert memory["used_bytes"] <= memory["budget_bytes"]
    assert min(memory["exemplars_per_class"]) > 2  # of two raw images
