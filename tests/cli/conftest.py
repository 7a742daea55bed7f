"""A run that was stopped on its way."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.command_line import stopped_run


@pytest.fixture(scope="session")
def kept_stopped_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stopped_run(tmp_path_factory.mktemp("stopped") / "run")


@pytest.fixture
def stopped(kept_stopped_run: Path, tmp_path: Path) -> Path:
    """A run folder that was left in the second of two tasks."""
    return shutil.copytree(kept_stopped_run, tmp_path / "stopped")
