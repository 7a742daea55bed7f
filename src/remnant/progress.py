"""How training looks while it goes on: a bar on a terminal, a line per epoch elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from remnant.training.trainer import StepReport


class EpochLines:
    """One line per epoch, for logs and pipes."""

    def __init__(self, num_tasks: int, console: Console) -> None:
        self._num_tasks = num_tasks
        self._console = console
        self._images = 0
        self._seconds = 0.0

    def __enter__(self) -> EpochLines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def on_step(self, report: StepReport) -> None:
        self._images += report.images
        self._seconds += report.images / report.images_per_second
        if not report.is_epoch_end:
            return
        self._console.print(
            f"task {report.task + 1}/{self._num_tasks} {report.phase} epoch "
            f"{report.epoch + 1}/{report.num_epochs} {describe_terms(report)} "
            f"{self._images / max(self._seconds, 1e-9):.0f} images/s",
            highlight=False,
            soft_wrap=True,
        )
        self._images, self._seconds = 0, 0.0


class ProgressBar:
    """A live bar: task, phase, epoch, losses, images/s, time left."""

    def __init__(self, num_tasks: int, console: Console) -> None:
        self._num_tasks = num_tasks
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[detail]}"),
            TimeRemainingColumn(compact=True),
            console=console,
            refresh_per_second=4,
        )
        self._current: tuple[int, str] | None = None
        self._row: TaskID | None = None
        self._speed = 0.0
        self._shown = 0.0

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def on_step(self, report: StepReport) -> None:
        if self._current != (report.task, report.phase):
            self._current = (report.task, report.phase)
            self._row = self._bar.add_task(
                f"task {report.task + 1}/{self._num_tasks} {report.phase}",
                total=report.num_steps,
                detail="",
            )
        assert self._row is not None, "a row was just made"
        self._speed = (
            0.9 * (self._speed or report.images_per_second) + 0.1 * report.images_per_second
        )
        is_last = report.step + 1 == report.num_steps
        if not is_last and time.monotonic() - self._shown < 0.1:
            return
        self._shown = time.monotonic()
        detail = (
            f"epoch {report.epoch + 1}/{report.num_epochs}  {describe_terms(report)}  "
            f"{self._speed:.0f} images/s"
        )
        self._bar.update(self._row, completed=report.step + 1, detail=detail)


def describe_terms(report: StepReport) -> str:
    return "  ".join(f"{name} {value:.3f}" for name, value in report.terms.items())


def watch(num_tasks: int) -> ProgressBar | EpochLines:
    """A bar when somebody looks at standard error, lines otherwise."""
    console = Console(stderr=True)
    kind = ProgressBar if sys.stderr.isatty() else EpochLines
    return kind(num_tasks, console)
