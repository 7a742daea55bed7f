"""Runs of the pixel method inside the test's own process, whole and stopped at a step."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import remnant.runs.experiment as experiment_module
from remnant.config import RunConfig
from remnant.data import DataConfig
from remnant.data.stream import StreamConfig
from remnant.memory import MemoryConfig
from remnant.methods import METHODS
from remnant.phases import StepReport
from remnant.runs.experiment import run
from remnant.training.processes import TrainingConfig
from remnant.views.augment import AugmentConfig
from tests.support.pixel_method import Pixels, PixelsConfig, schedule
from tests.support.worlds import load_once


def tiny_config(**changes: Any) -> RunConfig:
    values = {
        "data": DataConfig(dataset="digits", images_per_class=8, image_size=8),
        "stream": StreamConfig(num_classes=4, num_tasks=2),
        "augment": AugmentConfig(train="flip"),
        "memory": MemoryConfig(budget="3images/class"),
        "method": PixelsConfig(first=schedule(3, 4)),
        "training": TrainingConfig(
            accelerator="cpu", threads=1, checkpoint_every_steps=5, log_every_steps=1
        ),
    }
    return RunConfig.model_validate({**values, **changes})


def add_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Among the methods, for as long as the patch lasts; digits are loaded once."""
    monkeypatch.setitem(METHODS, "pixels", Pixels)
    monkeypatch.setattr(experiment_module, "load_dataset", load_once)


class Stopped(BaseException):
    pass


class StopAt:
    def __init__(self, task: int, step: int, seconds_per_step: float = 0.0) -> None:
        self._place = (task, step)
        self._seconds_per_step = seconds_per_step

    def on_step(self, report: StepReport) -> None:
        time.sleep(self._seconds_per_step)
        if (report.task, report.step) == self._place:
            raise Stopped


def stop_at(folder: Path, task: int, step: int, seconds_per_step: float = 0.0) -> None:
    with pytest.raises(Stopped):
        run(tiny_config(), folder, watchers=(StopAt(task, step, seconds_per_step),))


def result_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "result.json").read_text())
