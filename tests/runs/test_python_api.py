"""Claims about `remnant.run` in Python."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import remnant
from remnant.errors import InputError
from tests.support.command_line import TINY, tiny_config


def test_a_recipe_is_run_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = remnant.run("digits-er", tmp_path / "run", settings=TINY, progress=False)
    assert result == json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["finished"] is True
    assert capsys.readouterr() == ("", "")


def test_a_config_is_run_as_it_is_and_shows_its_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    config = tiny_config("digits-finetune", seed=3)
    assert remnant.run(config)["seed"] == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("epoch 1/1") == 2
    written = json.loads(Path("runs/digits-finetune/config.json").read_text())
    assert written == config.model_dump(mode="json")


def test_what_cannot_be_run_raises_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Did you mean memory\.budget"):
        remnant.run("digits-er", tmp_path / "run", settings={"memory.bugdet": "1KiB"})
    wrong: Any = [1]
    with pytest.raises(InputError, match=r"settings must be a mapping.*; got \[1\]"):
        remnant.run("digits-er", tmp_path / "run", settings=wrong)
    with pytest.raises(InputError, match="at least"):
        remnant.run("digits-er", tmp_path / "run", settings={"memory.budget": "1KiB/class"})
    assert list(tmp_path.iterdir()) == []


def test_importing_remnant_does_not_import_torch() -> None:
    code = "import remnant, sys; assert 'torch' not in sys.modules; assert 'run' in remnant.__all__"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_names_are_missing() -> None:
    with pytest.raises(AttributeError, match="no attribute 'walk'"):
        _ = remnant.walk  # pyright: ignore[reportAttributeAccessIssue]
