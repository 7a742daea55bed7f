"""The built package: small, without the kept runs, and it works in an empty environment.

Installing needs a package index (or a local one that pip is set up for), as `make test` does.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import remnant

ROOT = Path(__file__).parents[1]
# Enough to pass every stage of the demo; its accuracy is not what is tested.
SHORT = ("--set", "method.first.epochs=1", "--set", "data.images_per_class=12")


def call(*command: str | Path, folder: Path) -> str:
    """What a command prints, away from the source tree and without its path."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, folder=folder)
    return folder


def test_the_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.*)$", citation, flags=re.MULTILINE) == [remnant.__version__]
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert f"## [{remnant.__version__}]" in changelog


@pytest.mark.slow
def test_the_wheel_is_small_and_holds_the_package_alone(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.stat().st_size < 1_000_000
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"remnant"}
    assert "remnant/py.typed" in names
    assert any(name.endswith(".html.j2") for name in names)  # the pages' templates


@pytest.mark.slow
def test_the_source_archive_has_what_a_build_needs_and_no_kept_runs(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames() if "/" in name]
    assert {"pyproject.toml", "README.md", "LICENSE", "src/remnant/__init__.py"} <= set(names)
    assert not [name for name in names if name.startswith("docs/runs")]


@pytest.mark.slow
@pytest.mark.timeout(1800)  # downloads and unpacks torch
def test_the_wheel_runs_the_demo_in_an_empty_environment(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    call(sys.executable, "-m", "venv", "empty", folder=tmp_path)
    programs = tmp_path / "empty" / "bin"
    constraints = ROOT / "constraints.txt"
    call(programs / "pip", "install", "-q", "-c", constraints, wheel, folder=tmp_path)
    call(programs / "pip", "check", folder=tmp_path)
    version = call(programs / "remnant", "--version", folder=tmp_path)
    assert version.strip() == remnant.__version__
    call(programs / "remnant", "run", "demo", *SHORT, folder=tmp_path)
    folder = tmp_path / "runs" / "demo"
    assert json.loads((folder / "result.json").read_text())["finished"] is True
    assert (folder / "report.html").exists()
