"""Things from outside the package: registered by hand, and installed as the example plug-in is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import remnant
from remnant.errors import InputError
from remnant.methods import METHODS
from remnant.methods.er import ER
from remnant.testing import Check, checks_for

PLUGIN = Path(__file__).parents[1] / "examples" / "plugin"
sys.path.append(str(PLUGIN))
from remnant_smooth import Smooth  # noqa: E402


@pytest.fixture
def methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setitem(METHODS, "smooth", Smooth)
    monkeypatch.delitem(METHODS, "smooth")


def test_a_registered_method_is_known_by_its_name(methods: None) -> None:
    assert remnant.register(Smooth) is Smooth
    assert METHODS["smooth"] is Smooth
    remnant.register(Smooth)
    again = type("Smooth", (Smooth,), {"__module__": Smooth.__module__})
    remnant.register(again)  # as when a notebook cell is run twice
    assert METHODS["smooth"] is again


def test_a_name_that_is_taken_is_refused() -> None:
    taken = type("Other", (ER,), {})
    with pytest.raises(InputError, match="there is already a method named 'er'"):
        remnant.register(taken)


@pytest.mark.parametrize("thing", ["er", 3, dict, ER.Config])
def test_what_is_nothing_that_remnant_knows_is_refused(thing: object) -> None:
    with pytest.raises(InputError, match=r"register takes a method or a codec or .*; got"):
        remnant.register(thing)


@pytest.mark.parametrize("check", checks_for(Smooth), ids=str)
def test_the_example_is_a_proper_method(check: Check) -> None:
    check()


def test_the_guide_shows_the_example_as_it_is() -> None:
    guide = (PLUGIN.parents[1] / "CONTRIBUTING.md").read_text()
    assert f"```python\n{(PLUGIN / 'remnant_smooth.py').read_text()}```" in guide


def test_an_installed_plugin_is_listed_and_runs(tmp_path: Path) -> None:
    source, site = tmp_path / "plugin", tmp_path / "site"
    shutil.copytree(PLUGIN, source)  # building leaves files there
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    call("pip", "install", "-q", *offline, "--target", str(site), str(source))
    listed = json.loads(call("remnant", "list", "methods", "--json", site=site))
    (row,) = [row for row in listed if row["name"] == "smooth"]
    assert row["about"] == "Smoothed replay: experience replay with softened targets."
    short = {"stream.num_classes": 4, "stream.num_tasks": 2, "data.images_per_class": 8}
    short |= {"method.first.epochs": 1, "training.accelerator": '"cpu"'}
    settings = [part for key, value in short.items() for part in ("--set", f"{key}={value}")]
    out = tmp_path / "run"
    call("remnant", "run", str(source / "digits.json"), "--out", str(out), *settings, site=site)
    result = json.loads((out / "result.json").read_text())
    assert result["finished"] is True
    assert result["memory"]["used_bytes"] > 0


def call(module: str, *arguments: str, site: Path | None = None) -> str:
    paths = [str(site)] if site is not None else []
    paths += [path for path in (os.environ.get("PYTHONPATH"),) if path]
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
