"""Every tutorial runs from top to bottom in an empty folder.

A page becomes one bash script: `sh` fences as they are, `python` fences as files that are run. An
HTML comment on the line before a fence changes that:

    <!-- file: NAME -->       the fence is saved as NAME
    <!-- instead: COMMAND --> COMMAND is run in its place: the fence needs more than a test has
    <!-- skip: REASON -->     nothing is run
    <!-- needs: PROGRAM -->   without PROGRAM the page is skipped; the fence runs as usual
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials"
PAGES = [page for page in sorted(FOLDER.glob("*.md")) if page.name != "README.md"]
_FENCE = re.compile(
    r"(?:<!-- (?P<order>file|instead|skip|needs): (?P<value>.*?) -->\n)?"
    r"```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_START = "set -eo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"


@dataclass(frozen=True)
class Fence:
    order: str
    value: str
    language: str
    text: str


def fences(page: Path) -> list[Fence]:
    found = _FENCE.finditer(page.read_text())
    return [Fence(*(part or "" for part in match.groups())) for match in found]


def script(page: Path, folder: Path) -> str:
    """The page as a bash script; its files are written to `folder`."""
    return _START + "".join(_steps(page, folder))


def _steps(page: Path, folder: Path) -> Iterator[str]:
    for number, fence in enumerate(fences(page)):
        if fence.order == "file":
            (folder / fence.value).write_text(fence.text)
        elif fence.order == "instead":
            yield f"{fence.value}\n"
        elif fence.order != "skip" and fence.language == "sh":
            yield fence.text
        elif fence.order != "skip" and fence.language == "python":
            (folder / f"fence_{number}.py").write_text(fence.text)
            yield f"python fence_{number}.py\n"


@pytest.mark.slow
@pytest.mark.numeric
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_runs(page: Path, tmp_path: Path) -> None:
    for fence in fences(page):
        if fence.order == "needs" and shutil.which(fence.value) is None:
            pytest.skip(f"{fence.value} is not installed")
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script(page, tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PATH": programs},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_most_of_a_tutorial_is_run(page: Path, tmp_path: Path) -> None:
    left_out = [fence for fence in fences(page) if fence.order == "skip"]
    assert all(fence.value for fence in left_out)
    assert script(page, tmp_path).count("\n") > 2 + len(left_out)


def test_the_list_names_every_tutorial() -> None:
    text = (FOLDER / "README.md").read_text()
    assert sorted(re.findall(r"\]\((.*?)\)", text)) == [page.name for page in PAGES]
