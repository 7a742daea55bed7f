"""A real browser, for the tests of every kind of page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A camera that shows a moving picture, and needs no permission.
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
]


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
