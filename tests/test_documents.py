"""What the pages for those who come from other tools print, runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from remnant.cli import app

ALL = sorted((Path(__file__).parents[1] / "docs" / "coming-from").glob("*.md"))


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


PAGES = {page.stem: page for page in ALL}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if blocks(page)])
def test_the_python_of_a_page_runs(name: str, tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks(PAGES[name])))
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_a_page_exist(name: str) -> None:
    fences = re.findall(r"```\n(.*?)```", PAGES[name].read_text(), flags=re.DOTALL)
    commands = re.findall(r"^remnant (\w+)", "".join(fences), flags=re.MULTILINE)
    assert all(app[name] is not None for name in commands)
