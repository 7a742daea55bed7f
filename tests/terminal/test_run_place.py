"""The line that says which of several runs is going on."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from remnant.terminal.run_place import RunPlace


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("digits-er", "digits-icarl", "digits-wa"), "run 2 of 3: digits-icarl\n"),
        (("digits-icarl",), "run 1 of 1: digits-icarl\n"),  # the last that is left
        ((), ""),
    ],
)
def test_a_run_has_a_number_where_there_are_several(names: tuple[str, ...], expected: str) -> None:
    text = io.StringIO()
    RunPlace(names, Console(file=text)).on_run_begin(Path("runs/several/digits-icarl"), {}, 0)
    assert text.getvalue() == expected
