"""Fake run folders, and a browser to look at the pages made from them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from run_folders import WriteRun, write_run_folder

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """`write_run(name, ...)` makes a run folder below `tmp_path` and returns it."""

    def write(name: str, **options: Any) -> Path:
        return write_run_folder(tmp_path / name, **options)

    return write


# Not for the whole session: while Playwright is open, no other test can run an event loop.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A headless browser; without Chromium its tests skip, but not in CI."""
    path = shutil.which("chromium")
    if path is None:
        message = "Chromium is not installed"
        if os.environ.get("CI"):
            pytest.fail(f"{message}, and CI must look at the pages")
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()
