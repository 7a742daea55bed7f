"""What an update of a learner says before it trains and where it ends early, on standard error."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console

from remnant.terminal.visible import visible


def print_plan(description: str, notes: Iterable[str]) -> None:
    """What is about to happen, then a line for each note."""
    console = Console(stderr=True)
    for line in (description, *(f"note: {visible(note)}" for note in notes)):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def print_end(reason: str) -> None:
    """Why training ended."""
    Console(stderr=True).print(reason, highlight=False)
