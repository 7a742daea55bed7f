"""How training looks while it goes on: a bar on a terminal, a line per epoch elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from remnant.phases import StepReport
from remnant.training.processes import is_main_process

_SECONDS_BETWEEN_UPDATES = 0.1


class TimeLeft:
    """How much of a whole run is left, by the images that are still to come.

    Seconds per image are those of the clock on the wall, so what happens between phases counts.
    """

    def __init__(self, planned_images: Sequence[int]) -> None:
        self._planned = planned_images  # of each task
        self._ratio = 1.0  # of the images that the last whole task took to those planned
        self._task = -1
        self._is_whole = False  # the task at hand was seen from its beginning
        self._task_images = 0
        self._images = 0  # in this process: a resumed run has more behind it
        self._began = 0.0
        self.images_left = 0.0

    def on_step(self, report: StepReport) -> None:
        if report.task != self._task:
            self._begin_task(report)
        self._images += report.images
        self._task_images += report.images
        in_phase = (report.num_steps - report.step - 1) * report.images
        in_task = self._planned[report.task] * self._ratio - self._task_images
        later = sum(self._planned[report.task + 1 :]) * self._ratio
        self.images_left = max(in_phase, in_task) + later

    def _begin_task(self, report: StepReport) -> None:
        if self._task < 0:
            self._began = time.monotonic() - report.images / report.images_per_second
        elif self._is_whole and self._planned[self._task]:
            self._ratio = self._task_images / self._planned[self._task]
        self._is_whole = report.step == 0 and (self._task >= 0 or report.task == 0)
        self._task = report.task
        self._task_images = report.step * report.images

    @property
    def share_done(self) -> float:
        """Of the whole run, from 0 to 1."""
        done = sum(self._planned[: self._task]) * self._ratio + self._task_images
        return done / max(done + self.images_left, 1)

    @property
    def seconds(self) -> float:
        elapsed = time.monotonic() - self._began
        return elapsed / max(self._images, 1) * self.images_left

    def __str__(self) -> str:
        seconds = round(self.seconds)
        if seconds < 60:
            return f"{seconds} s left"
        minutes = round(seconds / 60)
        return f"{minutes} min left" if minutes < 100 else f"{minutes / 60:.1f} h left"


class Window:
    """Loss terms and speed over the steps since it was last emptied."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._images = 0
        self._seconds = 0.0

    def add(self, report: StepReport) -> None:
        # A player that moves seldom names its terms seldom: each term has a count of its own.
        for name, value in report.terms.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
            self._counts[name] = self._counts.get(name, 0) + 1
        self._images += report.images
        self._seconds += report.images / report.images_per_second

    @property
    def losses(self) -> str:
        return "  ".join(
            f"{name} {total / self._counts[name]:.3f}" for name, total in self._sums.items()
        )

    @property
    def speed(self) -> str:
        return f"{self._images / max(self._seconds, 1e-9):,.0f} images/s"


class EpochLines:
    """One line per epoch, for logs and pipes."""

    def __init__(self, planned_images: Sequence[int], console: Console) -> None:
        self._num_tasks = len(planned_images)
        self._console = console
        self._left = TimeLeft(planned_images)
        self._window = Window()

    def __enter__(self) -> EpochLines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def on_step(self, report: StepReport) -> None:
        self._left.on_step(report)
        self._window.add(report)
        if not report.is_epoch_end:
            return
        parts = (
            f"task {report.task + 1}/{self._num_tasks} {report.phase}",
            f"epoch {report.epoch + 1}/{report.num_epochs}",
            self._window.losses,
            self._window.speed,
            str(self._left),
        )
        self._console.print("  ".join(parts), highlight=False, markup=False, soft_wrap=True)
        self._window = Window()


class _BarWithLosses(Progress):
    """A bar and, under it, a line for what has no room beside it in 80 columns."""

    losses = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        yield Text(self.losses, style="dim", no_wrap=True, overflow="ellipsis")


class ProgressBar:
    """A live bar over the whole run, with task, phase, epoch, losses, images/s and time left.

    What is over stays above it, a line for each phase.
    """

    def __init__(self, planned_images: Sequence[int], console: Console) -> None:
        self._num_tasks = len(planned_images)
        self._left = TimeLeft(planned_images)
        self._bar = _BarWithLosses(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[epoch]}"),
            TextColumn("{task.fields[speed]}"),
            TextColumn("{task.fields[left]}"),
            console=console,
            refresh_per_second=4,
            expand=True,
            transient=True,
        )
        self._row = self._bar.add_task("preparing", total=1.0, epoch="", speed="", left="")
        self._phase: tuple[int, str] | None = None
        self._epochs = Window(), Window()  # the whole phase, and its last epoch
        self._shown = 0.0

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def on_step(self, report: StepReport) -> None:
        self._left.on_step(report)
        if self._phase != (report.task, report.phase):
            self._phase = report.task, report.phase
            self._epochs = Window(), Window()
        whole, epoch = self._epochs
        whole.add(report)
        epoch.add(report)
        is_last = report.step + 1 == report.num_steps
        if is_last or time.monotonic() - self._shown > _SECONDS_BETWEEN_UPDATES:
            self._show(report)
        if is_last:
            line = f"{self._name(report)}  {whole.speed}  {epoch.losses}"
            self._bar.console.print(line, highlight=False, markup=False, no_wrap=True)
            self._bar.losses = "evaluating, or preparing what comes next"
        if report.is_epoch_end:
            self._epochs = whole, Window()

    def _name(self, report: StepReport) -> str:
        return f"task {report.task + 1}/{self._num_tasks} {report.phase}"

    def _show(self, report: StepReport) -> None:
        whole, epoch = self._epochs
        self._shown = time.monotonic()
        self._bar.losses = epoch.losses
        self._bar.update(
            self._row,
            description=self._name(report),
            completed=self._left.share_done,
            epoch=f"epoch {report.epoch + 1}/{report.num_epochs}",
            speed=whole.speed,
            left=str(self._left),
        )


class Silence:
    """Nothing, in processes whose like already tells."""

    def __enter__(self) -> Silence:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def on_step(self, report: StepReport) -> None:
        pass


def watch(planned_images: Sequence[int]) -> ProgressBar | EpochLines | Silence:
    """A bar when somebody looks at standard error, lines otherwise, from the first process alone.

    Args:
        planned_images: How many images training will see in each task.
    """
    if not is_main_process():
        return Silence()
    console = Console(stderr=True)
    kind = ProgressBar if sys.stderr.isatty() else EpochLines
    return kind(planned_images, console)
