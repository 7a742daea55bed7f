"""A store taught in milliseconds, an app for it, a server in its own process and its page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remnant.methods import METHODS
from remnant.serving import StoreSession, build_app
from remnant.serving.guard import Rules
from tests.support.browser import chromium
from tests.support.http_client import Client, RealServer
from tests.support.small_learner import TaughtPixels, stripes, tiny_learner
from tests.support.views import View

__all__ = ["chromium"]
_PATIENCE = 120_000  # milliseconds


@pytest.fixture(autouse=True)
def pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "pixels", TaughtPixels)


@pytest.fixture
def store(pixels: None, tmp_path: Path) -> Path:
    """Stripes at the columns a and c."""
    path = tmp_path / "stripes.remnant"
    tiny_learner().partial_fit(*stripes("a", "c")).save(path)
    return path


@pytest.fixture
def session(store: Path) -> Iterator[StoreSession]:
    found = StoreSession(store)
    yield found
    found.close()


@pytest.fixture
def client(session: StoreSession) -> Client:
    return Client(build_app(session, Rules()))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """Serves real digits, 0 to 2, as the pixel method learns them."""
    folder = tmp_path_factory.mktemp("served")
    with RealServer(folder) as started:
        yield started
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def open_page(server: RealServer, chromium: Any) -> Iterator[Any]:
    """`open_page(width, scheme)`; checks at the end that no other server was contacted."""
    views = []

    def open_(width: int = 1280, scheme: str = "light", path: str = "") -> Any:
        view = View(chromium, server.url + path, width, scheme)
        view.page.set_default_timeout(_PATIENCE)
        views.append(view)
        return view

    yield open_
    for view in views:
        foreign = [
            url for url in view.requests if not url.startswith((server.url, "data:", "blob:"))
        ]
        assert foreign == []
        view.context.close()
