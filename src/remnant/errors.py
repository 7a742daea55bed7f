"""What a user can get wrong, as one kind of error, and hints at what was meant and what to do."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable
from pathlib import Path


class InputError(ValueError):
    """Something a user chose or supplied cannot be used; the message says what to do."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: ` Did you mean X?`, or nothing."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {matches[0]}?" if matches else ""


def how_to_install(extra: str) -> str:
    """The end of an error about packages that are missing."""
    return f'In a clone of remnant, run: pip install -c constraints.txt -e ".[{extra}]"'


def command_text(*words: object) -> str:
    """A command as it can be pasted into a shell."""
    return shlex.join(str(word) for word in words)


def resume_command(folder: Path) -> str:
    """The command that continues the run, or the runs, in a folder."""
    return command_text("remnant", "resume", folder)


def amount(number: int, what: str) -> str:
    """`1 image`, `2 images` and `2 classes`."""
    ending = "" if number == 1 else "es" if what.endswith("s") else "s"
    return f"{number:,} {what}{ending}"
