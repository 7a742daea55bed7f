"""docs/design.md describes the tree as it is: layout, matrix of packages and the loop.

To write the matrix and the loop into it again:

    REMNANT_UPDATE_DESIGN=1 python -m pytest tests/test_design.py
"""

from __future__ import annotations

import inspect
import os
import re
import textwrap
from pathlib import Path

from remnant.training.task_loop import TaskLoop
from tests.support.package_matrix import LEAVES, MATRIX, SOURCE

PAGE = Path(__file__).parents[1] / "docs" / "design.md"


def matrix_table() -> str:
    rows = ["| package | may import |", "|---|---|"]
    for package, others in MATRIX.items():
        if not package.startswith("__"):
            names = ", ".join(f"`{name}`" for name in sorted(others)) or "nothing"
            rows.append(f"| `{package}` | {names} |")
    return "\n".join(rows)


def loop_source() -> str:
    """The body of the loop, from its first statement on."""
    source = textwrap.dedent(inspect.getsource(TaskLoop.learn))
    return textwrap.dedent(source[source.index("for task in tasks:") - 4 :]).rstrip()


def with_current_parts(text: str) -> str:
    text = re.sub(r"(```python\n).*?(\n```)", lambda m: m[1] + loop_source() + m[2], text, count=1,
                  flags=re.DOTALL)  # fmt: skip
    return re.sub(r"(?:\| package \| may import \|\n(?:\|.*\n)*|^MATRIX\n)",
                  lambda _: matrix_table() + "\n", text, count=1, flags=re.MULTILINE)  # fmt: skip


def test_the_loop_and_the_matrix_are_those_of_the_code() -> None:
    text = PAGE.read_text()
    if os.environ.get("REMNANT_UPDATE_DESIGN"):
        PAGE.write_text(text := with_current_parts(text))
    assert text == with_current_parts(text)


def test_every_room_is_on_the_map() -> None:
    text = PAGE.read_text()
    layout = text[text.index("src/remnant/\n") : text.index("The root holds leaves")]
    named = set(re.findall(r"^  (\w+(?:\.py|/))", layout, re.MULTILINE))
    packages = {f"{path.parent.name}/" for path in SOURCE.glob("*/__init__.py")}
    modules = {path.name for path in SOURCE.glob("*.py") if not path.name.startswith("_")}
    assert named == packages | modules
    assert LEAVES | {"config"} == {path.stem for path in SOURCE.glob("*.py")} - {
        "__init__",
        "__main__",
    }
