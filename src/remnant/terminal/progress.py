"""Progress of training: a bar on a terminal, a line per epoch elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from remnant.phases import StepReport
from remnant.training.launchers import is_main_process

_SECONDS_BETWEEN_UPDATES = 0.1


class TimeLeft:
    """Estimates the rest of a run from the number of images that are still to be trained on.

    Seconds per image are wall-clock time, so the work between phases is included.
    """

    def __init__(self, planned_images: Sequence[int]) -> None:
        self._planned = planned_images  # per task
        self._ratio = 1.0  # images of the last complete task / images planned for it
        self._task = -1
        self._is_complete = False  # whether the current task was seen from its first step
        self._task_images = 0
        self._images = 0  # since this process started: excludes what a resumed run did before
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
        elif self._is_complete and self._planned[self._task]:
            self._ratio = self._task_images / self._planned[self._task]
        self._is_complete = report.step == 0 and (self._task >= 0 or report.task == 0)
        self._task = report.task
        self._task_images = report.step * report.images

    @property
    def share_done(self) -> float:
        """Finished share of the run, from 0 to 1."""
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
    """Mean loss terms and speed over some steps."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._images = 0
        self._seconds = 0.0

    def add(self, report: StepReport) -> None:
        # Counted per term: a player that does not move at every step has fewer values.
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


def accuracy_of(report: StepReport) -> list[str]:
    """What was measured at the end of an epoch, if anything was."""
    return [] if report.accuracy is None else [f"{report.accuracy:.1f} % of held-out images"]


class EpochLines:
    """One line per epoch, for logs and pipes."""

    def __init__(self, planned_images: Sequence[int], console: Console) -> None:
        self._num_tasks = len(planned_images)
        self.console = console
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
            *accuracy_of(report),
            self._window.losses,
            self._window.speed,
            str(self._left),
        )
        self.console.print("  ".join(parts), highlight=False, markup=False, soft_wrap=True)
        self._window = Window()


class _BarWithLosses(Progress):
    """A bar with a line below it for the losses, which do not fit beside it in 80 columns."""

    losses = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        yield Text(self.losses, style="dim", no_wrap=True, overflow="ellipsis")


class ProgressBar:
    """A live bar over the whole run, with task, phase, epoch, losses, images/s and time left.

    Each finished phase leaves a line above it.
    """

    def __init__(self, planned_images: Sequence[int], console: Console) -> None:
        self._num_tasks = len(planned_images)
        self.console = console
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
        self._epochs = Window(), Window()  # the phase so far, and its current epoch
        self._shown = 0.0
        self._accuracy: list[str] = []  # as last measured

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
        if (
            is_last
            or report.accuracy is not None
            or time.monotonic() - self._shown > _SECONDS_BETWEEN_UPDATES
        ):
            self._show(report)
        if is_last:
            line = f"{self._name(report)}  {whole.speed}  {epoch.losses}"
            self.console.print(line, highlight=False, markup=False, no_wrap=True)
            self._bar.losses = "evaluating, or preparing the next phase"
        if report.is_epoch_end:
            self._epochs = whole, Window()

    def _name(self, report: StepReport) -> str:
        return f"task {report.task + 1}/{self._num_tasks} {report.phase}"

    def _show(self, report: StepReport) -> None:
        whole, epoch = self._epochs
        self._shown = time.monotonic()
        self._accuracy = accuracy_of(report) or self._accuracy
        self._bar.losses = "  ".join([*self._accuracy, epoch.losses])
        self._bar.update(
            self._row,
            description=self._name(report),
            completed=self._left.share_done,
            epoch=f"epoch {report.epoch + 1}/{report.num_epochs}",
            speed=whole.speed,
            left=str(self._left),
        )


def watch(planned_images: Sequence[int]) -> ProgressBar | EpochLines:
    """A bar if standard error is a terminal, else lines; only the main process prints.

    Args:
        planned_images: How many images training will see in each task.
    """
    console = Console(stderr=True, quiet=not is_main_process())
    kind = ProgressBar if sys.stderr.isatty() and not console.quiet else EpochLines
    return kind(planned_images, console)
