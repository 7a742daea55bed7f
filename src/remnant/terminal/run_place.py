"""Which of several runs is going on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from remnant.phases import RunWatcher


class RunPlace(RunWatcher):
    """Prints a line such as `run 2 of 3: seed-1` once a run begins.

    What cannot begin, for want of data, is left to its error.

    Args:
        names: Of the folders of all runs that are to be carried out, in their order; (): there is
            but this one, and nothing is printed.
        console: That of the progress bar, so that the line stands above it.
    """

    def __init__(self, names: Sequence[str], console: Console) -> None:
        self._names, self._console = names, console

    def on_run_begin(self, folder: Path, config: dict[str, Any], images_done: int) -> None:
        if self._names:
            place = f"run {self._names.index(folder.name) + 1} of {len(self._names)}"
            self._console.print(
                f"{place}: {folder.name}", highlight=False, markup=False, soft_wrap=True
            )
