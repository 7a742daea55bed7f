"""Trackers of runs that come with the package, by the name that `--track` takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from remnant.errors import InputError, how_to_install
from remnant.phases import RunWatcher, StepReport

EVENT_FOLDER = "tensorboard"  # in the run folder
_EVERY_STEPS = 10


class TensorBoard(RunWatcher):
    """Writes TensorBoard's event files into the run folder.

    What happens at steps is drawn over the number of images trained on, so that runs with other
    batches can be compared; what happens after tasks, over the number of tasks.

    Raises:
        InputError: The package tensorboard is not installed.
    """

    def __init__(self) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise InputError(
                "--track tensorboard needs the package tensorboard. Leave --track out, or install "
                f"it. {how_to_install('track')}"
            ) from None
        self._open = SummaryWriter
        self._writer: Any = None
        self._images = 0

    def on_run_begin(self, folder: Path, config: dict[str, Any], images_done: int) -> None:
        self._images = images_done
        # What a run wrote after its last checkpoint, before it was stopped, is told again.
        purge = images_done + 1 if images_done else None
        self._writer = self._open(str(folder / EVENT_FOLDER), purge_step=purge)

    def on_step(self, report: StepReport) -> None:
        self._images += report.images
        if report.step % _EVERY_STEPS and report.step + 1 < report.num_steps:
            return
        self._add("loss/total", report.loss)
        for name, value in report.terms.items():
            self._add(f"loss/{name}", value)
        self._add("training/learning rate", report.lr)
        self._add("training/images per second", report.images_per_second)

    def on_task_end(self, task: int, result: dict[str, Any]) -> None:
        after = task + 1
        self._add("accuracy/all classes seen", result["last_accuracy"], after)
        self._add("accuracy/average", result["average_accuracy"], after)
        for index, accuracy in enumerate(result["accuracy_matrix"][-1]):
            self._add(f"accuracy of task/{index + 1}", accuracy, after)
        self._add("memory/bytes", (result["memory"] or {}).get("used_bytes", 0), after)
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _add(self, name: str, value: float, step: int | None = None) -> None:
        self._writer.add_scalar(name, value, self._images if step is None else step)


TRACKERS: dict[str, Callable[[], RunWatcher]] = {"tensorboard": TensorBoard}
