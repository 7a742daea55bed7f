"""A store as a terminal shows it: numbers with their nouns."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from remnant.terminal.store_tables import newest_update, store_lines


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (1, ("1 class,", "100.0 % of 1 held-out image", "1 exemplar as raw")),
        (2, ("2 classes,", "100.0 % of 2 held-out images", "2 exemplars as raw")),
    ],
)
def test_one_is_told_as_one(number: int, told: tuple[str, ...]) -> None:
    update = {
        "classes": ["a"],
        "known_classes": [],
        "images": 6,
        "accuracy": 100.0,
        "measured_on": "held-out",
        "measured_images": number,
        "seconds": 1.0,
    }
    memory = {"used_bytes": 1, "budget_bytes": 9, "exemplars": number, "codec": "raw"}
    facts: dict[str, Any] = {
        "store": "x.remnant",
        "file_bytes": 9,
        "method": "er",
        "image_size": 8,
        "parameters": 9,
        "classes": ["a", "b"][:number],
        "memory": memory,
        "history": [update],
        "is_update_unfinished": False,
    }
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(newest_update(facts))
    shown = "\n".join([*store_lines(facts), console.export_text()])
    for part in told:
        assert part in shown
