"""A finished run of the pixel method, and runs that need no page."""

from __future__ import annotations

from pathlib import Path

import pytest

import remnant.runs.experiment as experiment_module
from remnant.runs.experiment import run
from tests.support.pixel_experiment import add_pixels, tiny_config


@pytest.fixture
def pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pixel method among the methods."""
    add_pixels(monkeypatch)


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs end without pictures and without a page."""
    for name in ("draw_memory", "write_report"):
        monkeypatch.setattr(experiment_module, name, lambda *_: None)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a whole run, for tests that leave it as it is."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    with pytest.MonkeyPatch.context() as patch:
        add_pixels(patch)
        run(tiny_config(), folder)
    return folder
