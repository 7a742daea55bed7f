"""The checkpoints of an update, so that it continues where it was stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from remnant.errors import InputError
from remnant.learner.epoch_ends import EpochEnds
from remnant.learner.learner_state import LearnerParameters, LearnerState
from remnant.learner.time_budget import MinutesPace, stretched_config
from remnant.learner.update_plan import UpdatePlan
from remnant.training.checkpoints import Checkpoints, Point
from remnant.training.network_state import Arrays

_ENDS, _SPENT, _THREADS = "epoch_ends", "seconds", "threads"  # in the metadata of a checkpoint


class UpdateFolder:
    """The checkpoints of one update, marked with the update that they belong to."""

    ends: EpochEnds | None = None  # what it knows is saved and loaded too
    pace: MinutesPace | None = None  # likewise

    def __init__(self, folder: Path, plan: UpdatePlan, parameters: LearnerParameters) -> None:
        self.checkpoints = Checkpoints(folder)
        self.plan = plan
        self._start = Point(plan.task.index)
        names = ("epochs", "minutes", "batch_size", "learning_rate")
        self._asked = [getattr(parameters, name) for name in names]

    @property
    def origin(self) -> str:
        return self.plan.origin()

    @property
    def _mark(self) -> dict[str, Any]:
        return {
            "origin": self.origin,
            "data": self.plan.data_digest,
            "asked": self._asked,
            "epochs": self.plan.config.method.first.epochs,
        }

    def change_epochs(self, epochs: int) -> None:
        """Go on with another number of epochs, which later checkpoints belong to."""
        self.plan = replace(self.plan, config=stretched_config(self.plan.config, epochs))

    def take_epochs(self) -> bool:
        """Whether this update was interrupted; then it has the epochs that it had, to continue."""
        point, planned = self._newest(), self.plan
        mark = {} if point is None else self._split(point)[0]
        if isinstance(mark.get("epochs"), int):
            self.change_epochs(mark["epochs"])
        if mark == self._mark:
            return True
        self.plan = planned
        return False

    def threads(self) -> int | None:
        """On which the last bits depend: of this same update, if it was interrupted."""
        point = self._newest()
        if point is None:
            return None
        mark, state = self._split(point)
        is_same = mark == self._mark | {"epochs": mark.get("epochs")}
        found = state.get(_THREADS)
        return found if is_same and type(found) is int and found > 0 else None

    def is_done(self, before: LearnerState) -> bool:
        """Whether a process was killed after it had finished this same update.

        Its epochs may have been others, as they follow the number of exemplars.
        """
        point = self._newest()
        if point is None or before.origin is None:
            return False
        mark = self._split(point)[0]
        return mark == self._mark | {"origin": before.origin, "epochs": mark.get("epochs")}

    def begin(self) -> Point:
        """Where to continue; checkpoints of other updates are removed."""
        point = self._newest()
        if point is not None:
            mark, state = self._split(point)
            if mark == self._mark:
                if self.ends is not None and _ENDS in state:
                    self.ends.load_state(state[_ENDS])
                if self.pace is not None and _SPENT in state:
                    self.pace.continue_after(state[_SPENT])
                return point
        for stale in self.checkpoints.points():
            (self.checkpoints.folder / stale.file_name).unlink(missing_ok=True)
        self.save(self._start, {})
        return self._start

    def save(self, point: Point, arrays: Arrays) -> None:
        state: dict[str, Any] = {_THREADS: torch.get_num_threads()}
        if self.ends is not None:
            state[_ENDS] = self.ends.state()
        if self.pace is not None:
            state[_SPENT] = self.pace.spent
        self.checkpoints.save(point, arrays, self._mark | state)

    def _split(self, point: Point) -> tuple[dict[str, Any], dict[str, Any]]:
        """The mark of a point, and the state of what watched it."""
        mark = dict(self.checkpoints.load(point)[1])
        return mark, {name: mark.pop(name) for name in (_ENDS, _SPENT, _THREADS) if name in mark}

    def _newest(self) -> Point | None:
        try:
            return self.checkpoints.newest_readable()
        except InputError:
            return None  # all are damaged, so the update starts over
