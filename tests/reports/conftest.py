"""Fake run folders, and a browser to look at the pages made from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import chromium
from tests.support.run_folders import WriteRun, write_run_folder

__all__ = ["chromium"]


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """`write_run(name, ...)` makes a run folder below `tmp_path` and returns it."""

    def write(name: str, **options: Any) -> Path:
        return write_run_folder(tmp_path / name, **options)

    return write
