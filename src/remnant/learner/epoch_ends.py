"""The ends of epochs of an update: accuracy on images held back, and whether to go on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.nn import functional

from remnant.images import ImageSet
from remnant.methods import Method
from remnant.phases import PhaseDoneError, StepReport, Watcher
from remnant.training.reader import ViewReader

_SHOWN = 20  # ends of epochs per phase; small data sets have hundreds
_STOPPABLE = ("train", "tune")  # phases that learn to classify
_LEAST_SHARE = 0.25  # of the planned epochs
_PATIENCE_SHARE = 0.3  # Chosen: of the planned epochs, in which nothing gets better
# Chosen: of the planned epochs, in which the learning rate then ends. At a high rate accuracy goes
# up and down by ten points from epoch to epoch, so that stopping there would be a game of chance.
_LAST_SHARE = 0.1
_LEAST_IMAGES = 20  # fewer are all right by chance

Measure = Callable[[], tuple[float, float]]  # percent that is right, and cross-entropy


class EpochEnds:
    """Tells a progress of some epochs with their accuracy, and ends training that gains nothing.

    It ends when all images held back are right. When for a share of the planned epochs neither
    their accuracy nor their loss has been better than ever before, the schedule is cut short: a few
    more epochs bring the learning rate to its end. What that depends on is part of checkpoints, so
    that an update that was interrupted ends where it would have ended.
    """

    def __init__(
        self,
        progress: Watcher | None,
        measure: Measure | None,
        can_stop: bool,
        on_change: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`measure` is None where nothing was held back; `on_change` is told other epochs."""
        self._progress = progress
        self._measure = measure
        self._can_stop = can_stop
        self._on_change = on_change
        self._phase: str | None = None
        self._best = (-1.0, float("inf"))  # accuracy and loss so far, of any epoch each
        self._best_epochs = 0  # done when one of them was reached
        self._cut_to: int | None = None  # epochs of the phase
        self.stopped_after: int | None = None  # epochs
        self.why = ""

    def on_step(self, report: StepReport) -> None:
        if report.phase != self._phase or report.step == 0:
            self._phase, self._best, self._best_epochs = report.phase, (-1.0, float("inf")), 0
            self._cut_to = None
        every = -(-report.num_epochs // _SHOWN)
        is_last = report.step + 1 == report.num_steps
        is_shown = report.is_epoch_end and ((report.epoch + 1) % every == 0 or is_last)
        accuracy = None
        if is_shown and not is_last and self._measure is not None:
            accuracy, loss = self._measure()
            self._compare(accuracy, loss, report.epoch + 1)
        if self._progress is not None:
            shown = replace(report, is_epoch_end=is_shown, accuracy=accuracy)
            self._progress.on_step(shown)
        # Phases that are trained in parts are not cut; they still end when all is right.
        is_cut = self._cut_to == report.num_epochs
        is_free = self._can_stop and not is_cut and report.phase in _STOPPABLE
        if is_free and accuracy is not None:
            self._stop_if_done(accuracy, report.epoch + 1, report.num_epochs)

    def epochs(self, report: StepReport) -> int:
        """How many the phase shall have; see `remnant.phases.Pace`.

        Only asked for a phase that can be cut, so that only then it is told.
        """
        if self._cut_to is None or self._cut_to == report.num_epochs:
            return report.num_epochs
        self.why = (
            f"held-out images got no better after epoch {self._best_epochs} of "
            f"{report.num_epochs}, so training ends after {self._cut_to}"
        )
        self._on_change(self._cut_to)
        return self._cut_to

    def _compare(self, accuracy: float, loss: float, epochs: int) -> None:
        best_accuracy, best_loss = self._best
        if accuracy > best_accuracy or loss < best_loss:
            self._best = max(accuracy, best_accuracy), min(loss, best_loss)
            self._best_epochs = epochs

    def _stop_if_done(self, accuracy: float, epochs: int, num_epochs: int) -> None:
        if epochs < _LEAST_SHARE * num_epochs:
            return
        if accuracy == 100:
            self.why = f"all held-out images are correct after {epochs} epochs, so training ends"
            self.stopped_after = epochs
            raise PhaseDoneError
        if epochs - self._best_epochs >= _PATIENCE_SHARE * num_epochs:
            self._cut_to = min(num_epochs, epochs + math.ceil(_LAST_SHARE * num_epochs))

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds of it, as JSON."""
        return {
            "phase": self._phase,
            "best": None if self._best_epochs == 0 else list(self._best),
            "best_epochs": self._best_epochs,
            "cut_to": self._cut_to,
            "stopped_after": self.stopped_after,
            "why": self.why,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self._phase, self._best_epochs = state["phase"], state["best_epochs"]
        if state["best"] is not None:
            self._best = (state["best"][0], state["best"][1])
        self._cut_to = state["cut_to"]
        self.stopped_after, self.why = state["stopped_after"], state["why"]


def watch_epochs(
    method: Method[Any],
    held_out: Sequence[ImageSet],
    reader: ViewReader,
    progress: Watcher | None,
    *,
    can_stop: bool,
    on_change: Callable[[int], None] = lambda _: None,
) -> EpochEnds:
    """Watches the accuracy on images that are not trained on.

    Args:
        method: About to be trained.
        held_out: New images, and exemplars of old classes.
        reader: Reads them.
        progress: Gets a report of some epochs; None: nothing is shown.
        can_stop: Whether training may end before all epochs are done.
        on_change: Gets the number of epochs when it changes.
    """
    if not held_out:
        return EpochEnds(progress, None, can_stop=False)
    labels = torch.cat([part.labels for part in held_out])

    def measure() -> tuple[float, float]:
        method.eval()
        scores = torch.cat([reader.apply(method.predict, part) for part in held_out]).double()
        method.train()
        is_right = scores.argmax(dim=1) == labels
        loss = functional.cross_entropy(scores, labels)
        return 100 * float(is_right.double().mean()), float(loss)

    can_stop = can_stop and len(labels) >= _LEAST_IMAGES
    return EpochEnds(progress, measure, can_stop, on_change)
