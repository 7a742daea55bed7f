"""The ends of epochs of an update: accuracy on images held back, and whether to go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from remnant.images import ImageSet
from remnant.methods import Method
from remnant.phases import PhaseDoneError, StepReport, Watcher
from remnant.training.reader import ViewReader

_SHOWN = 20  # ends of epochs per phase; small data sets have hundreds
_STOPPABLE = ("train", "tune")  # phases that learn to classify
_LEAST_SHARE = 0.25  # of the planned epochs
_LEAST_IMAGES = 20  # fewer are all right by chance
_PER_CLASS = 10  # exemplars of an old class, so that measuring takes little time


class EpochEnds:
    """Tells a progress of some epochs with their accuracy, and ends training when all is right.

    Whether it ends depends on the network alone, so that an update that was interrupted ends where
    it would have ended.
    """

    def __init__(
        self, progress: Watcher | None, measure: Callable[[], float] | None, can_stop: bool
    ) -> None:
        """`measure` gives percent; None where nothing was held back."""
        self._progress = progress
        self._measure = measure
        self._can_stop = can_stop
        self.stopped_after: int | None = None  # epochs

    def on_step(self, report: StepReport) -> None:
        every = -(-report.num_epochs // _SHOWN)
        is_last = report.step + 1 == report.num_steps
        is_shown = report.is_epoch_end and ((report.epoch + 1) % every == 0 or is_last)
        accuracy = None
        if is_shown and not is_last and self._measure is not None:
            accuracy = self._measure()
        if self._progress is not None:
            told = replace(report, is_epoch_end=is_shown, accuracy=accuracy)
            self._progress.on_step(told)
        is_late = report.epoch + 1 >= _LEAST_SHARE * report.num_epochs
        if self._can_stop and accuracy == 100 and is_late and report.phase in _STOPPABLE:
            self.stopped_after = report.epoch + 1
            raise PhaseDoneError


def watch_epochs(
    method: Method[Any],
    held_back: ImageSet | None,
    reader: ViewReader,
    progress: Watcher | None,
    *,
    can_stop: bool,
) -> EpochEnds:
    """Watches the accuracy on new images held back, and on some exemplars of each old class.

    Args:
        method: About to be trained.
        held_back: Of the new images.
        reader: Reads them.
        progress: Is told.
        can_stop: Whether training may end before all epochs are done.
    """
    if held_back is None:
        return EpochEnds(progress, None, can_stop=False)
    parts, old = [held_back], method.replay()
    if old is not None and old.is_known is None:  # whole images
        labels = old.labels
        kept = [(labels == label).nonzero()[:_PER_CLASS, 0] for label in labels.unique().tolist()]
        parts.append(old.select(torch.cat(kept)))

    def measure() -> float:
        method.eval()
        right = [reader.apply(method.predict, part).argmax(dim=1) == part.labels for part in parts]
        method.train()
        return 100 * float(torch.cat(right).double().mean())

    return EpochEnds(progress, measure, can_stop=can_stop and len(held_back) >= _LEAST_IMAGES)
