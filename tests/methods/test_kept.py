"""What each method carries from task to task beside its network and its memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remnant.archives import archive_digest
from remnant.config import RunConfig
from remnant.data import DataConfig
from remnant.data.stream import StreamConfig
from remnant.images import Task
from remnant.memory import Keeps, MemoryConfig
from remnant.methods import METHODS, Method, kept_bytes
from remnant.methods.base import MethodContext
from remnant.phases import Reader, StepReport
from remnant.runs import experiment
from remnant.testing.tiny_stream import SHAPE
from remnant.training.processes import TrainingConfig
from remnant.training.task_loop import empty_tasks
from tests.support.pixel_method import Pixels, PixelsConfig, schedule
from tests.support.small_residual import make_residual
from tests.support.tiny_methods import TRIALS

BESIDE: dict[str, set[str]] = {
    "bimae": {"decoder"},
    "cim": {"mask_generator"},
    "ewc": {"fisher", "anchor", "squares"},
    "gfr": {"generator", "critic"},
    "icarl": {"classifier"},  # its predictions need the means alone
    "mnemonics": {"class_means"},
    "mrdc": {"class_means", "quality_curve"},
    "pass": {"prototypes"},
    "podnet": {"class_means"},
    "tagfex": {"guide"},
    "ucir": {"class_means"},
}


def grown(method: Method) -> Method:
    for task in empty_tasks((2, 2), SHAPE):
        method.grow(task)
    return method


@pytest.mark.parametrize("name", list(METHODS))
def test_a_method_keeps_what_is_written_here(name: str) -> None:
    method = TRIALS[name]().build()
    expected = {"network"} | BESIDE.get(name, set())
    assert set(kept_bytes(method)) == expected | ({"memory"} if method.uses_memory else set())


def test_ewc_keeps_three_numbers_per_parameter() -> None:
    method = grown(make_residual("ewc"))
    weights = 4 * sum(parameter.numel() for parameter in method.parameters())
    kept = kept_bytes(method)
    assert kept["fisher"] == kept["anchor"] == weights
    assert kept["squares"] == weights + 8  # and how many there are
    everything = sum(tensor.nbytes for tensor in method.state_dict().values())
    assert kept["network"] == everything - 3 * weights - 8


@pytest.mark.parametrize("name", ["icarl", "ucir", "podnet"])
def test_the_head_that_does_not_predict_is_kept_beside_the_network(name: str) -> None:
    by_scores = kept_bytes(grown(make_residual(name, prediction="scores")))
    by_means = kept_bytes(grown(make_residual(name, prediction="nearest-mean")))
    assert by_scores["class_means"] == 4 * 4 * 64  # four classes, 64 features
    assert by_scores["network"] - by_means["network"] == (
        by_means["classifier"] - by_scores["class_means"]
    )


# --------------------------------------------------------------------- side data of exemplars


class StoredScores:
    """What the network said of every exemplar when it was stored; grows with the memory."""

    name = "scores"

    def __init__(self) -> None:
        self.rows = np.zeros((0, 0), dtype=np.float32)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes

    def ledger(self) -> dict[str, Any]:
        return {"rows": self.nbytes}

    def state_arrays(self) -> tuple[dict[str, np.ndarray], Any]:
        return {"rows": self.rows}, None

    def load_arrays(self, arrays: Mapping[str, np.ndarray], metadata: Any, source: str) -> None:
        self.rows = np.array(arrays["rows"])

    def digest(self) -> str:
        return archive_digest({}, self.state_arrays()[0])


class DarkPixels(Pixels):
    """Stores scores beside its exemplars, as dark experience replay does."""

    def __init__(self, config: PixelsConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.scores = StoredScores()

    def kept(self) -> list[Keeps]:
        return [*super().kept(), self.scores]

    def end_task(self, task: Task, reader: Reader) -> None:
        super().end_task(task, reader)
        exemplars = self.replay()
        assert exemplars is not None
        self.scores.rows = reader.apply(self.predict, exemplars).numpy()


class StopAtTheLastTask:
    def on_step(self, report: StepReport) -> None:
        if report.task == 1:
            raise KeyboardInterrupt


def test_scores_stored_beside_exemplars_are_counted_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "pixels", DarkPixels)
    for name in ("draw_memory", "write_report"):
        monkeypatch.setattr(experiment, name, lambda *_: None)
    config = RunConfig(
        data=DataConfig(dataset="digits", images_per_class=6, image_size=8),
        stream=StreamConfig(num_classes=4, num_tasks=2),
        memory=MemoryConfig(budget="3images/class"),
        method=PixelsConfig(first=schedule(1, 4)),
        training=TrainingConfig(accelerator="cpu", threads=1),
    )
    whole = experiment.run(config, tmp_path / "whole")
    assert whole.kept_bytes["scores"] == 4 * (4 * 3) * 4  # float32, of 12 exemplars and 4 classes
    assert whole.kept_bytes["memory"] == 12 * 8 * 8 * 3
    with pytest.raises(KeyboardInterrupt):
        experiment.run(config, tmp_path / "cut", watchers=(StopAtTheLastTask(),))
    assert experiment.resume(tmp_path / "cut").kept_bytes == whole.kept_bytes
