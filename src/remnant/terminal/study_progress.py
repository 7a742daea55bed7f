"""What a terminal shows while a study runs: a line per event, and what is going on now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from remnant.reports.units import seconds_text
from remnant.terminal.visible import visible


class StudyProgress:
    """Told by `studies.fan_out` what happens to the runs; jobs have a name and a last line."""

    def __init__(self, console: Console, total: int, done: int) -> None:
        self._console = console
        self._total = total
        self._done = done
        self._live = Live(console=console, transient=True, refresh_per_second=2)

    def __enter__(self) -> Self:
        left = self._total - self._done
        self._console.print(f"{self._total} runs, {self._done} done, {left} to do")
        if self._console.is_terminal and left:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._live.stop()

    def started(self, job: Any) -> None:
        verb = "started" if job.tries == 1 else "continued"
        self._console.print(f"{verb}   {job.run.name}", markup=False)

    def finished(self, job: Any, seconds: float) -> None:
        self._done += 1
        self._console.print(
            f"finished  {job.run.name} in {seconds_text(seconds)}, {self._done} of {self._total}: "
            f"{job.accuracies()}",
            markup=False,
        )

    def failed(self, failure: Any) -> None:
        self._console.print(
            f"failed    {failure.name}: {failure.reason} (see {failure.log})",
            style="bold red",
            markup=False,
        )

    def waiting(self, jobs: Sequence[Any]) -> None:
        if not self._live.is_started:
            return
        table = Table(box=None, pad_edge=False, show_header=False)
        for job in jobs:
            cells = (job.run.name, job.accuracies(), job.last_line()[:60])
            table.add_row(*(Text(visible(cell)) for cell in cells), style="dim")
        self._live.update(table)
