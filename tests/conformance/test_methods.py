"""What every method must do, whatever it is: new entries of METHODS are covered by a line in TINY.

The data are easy: 16 training images of each of four colours at 16 x 16 pixels. Every method
gets all test images right, on any processor, so the limits below are far from what is reached.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from kills import differences
from tiny_methods import TINY
from torch import Tensor
from worlds import NUM_THREADS, SEED_OFFSET, coloured_dataset

import remnant.experiment as experiment_module
import remnant.training.trainer as trainer_module
from remnant.augment import AugmentConfig
from remnant.config import RunConfig
from remnant.contracts import Images, ImageSet, OptimizerConfig, Phase, Reader, Task
from remnant.data import DataConfig, Dataset
from remnant.experiment import Experiment, resume, run
from remnant.methods import METHODS, Method
from remnant.stream import StreamConfig
from remnant.training.processes import TrainingConfig
from remnant.training.trainer import StepReport, Trainer


def tiny_config(name: str) -> RunConfig:
    assert name in TINY, f"give {name} a tiny config in tests/conformance/tiny_methods.py"
    method, memory, task_sizes = TINY[name]()
    return RunConfig(
        seed=SEED_OFFSET + 3,
        data=DataConfig(dataset="digits", images_per_class=16, image_size=16),
        stream=StreamConfig(num_classes=sum(task_sizes), task_sizes=task_sizes),
        augment=AugmentConfig(train="crop-flip", padding=1),
        memory=memory,
        method=method,
        training=TrainingConfig(
            accelerator="cpu", threads=NUM_THREADS, checkpoint_every_steps=3, log_every_steps=1
        ),
    )


@cache
def load_colours(data: DataConfig) -> Dataset:
    """In place of the data set that a config names."""
    assert data.images_per_class is not None
    assert data.image_size is not None
    return coloured_dataset(data.images_per_class, 12, data.image_size)


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading, figures and pages take longer than these runs, and have tests of their own."""
    monkeypatch.setattr(experiment_module, "load_dataset", load_colours)
    for name in ("draw_memory", "write_report"):
        monkeypatch.setattr(experiment_module, name, lambda *_: None)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@pytest.fixture(scope="module", params=list(METHODS))
def finished(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """A method and the folder of its uninterrupted run."""
    folder = tmp_path_factory.mktemp(request.param) / "run"
    with pytest.MonkeyPatch.context() as patch:
        hurry(patch)
        run(tiny_config(request.param), folder)
    return request.param, folder


def result_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "result.json").read_text())


def events_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


@pytest.mark.numeric
def test_it_learns_the_newest_task(finished: tuple[str, Path]) -> None:
    result = result_of(finished[1])
    assert result["finished"] is True
    for row in result["accuracy_matrix"]:
        assert row[-1] > 75  # all are right; guessing gives 50, then 25


def test_its_memory_stays_in_budget(finished: tuple[str, Path]) -> None:
    name, folder = finished
    memory = result_of(folder)["memory"]
    used = [event["memory_bytes"] for event in events_of(folder) if event["event"] == "task_end"]
    if not METHODS[name].uses_memory:
        assert memory["used_bytes"] == max(used) == 0
        return
    assert 0 < memory["used_bytes"] <= memory["budget_bytes"]
    assert memory["budget_bytes"] == memory["budget_bytes"] // 4 * 4  # four classes seen
    assert len(memory["exemplars_per_class"]) == 4
    assert min(memory["exemplars_per_class"]) > 0
    assert used == sorted(used)


def test_its_scores_are_one_row_per_image_and_one_column_per_class(
    finished: tuple[str, Path],
) -> None:
    name, folder = finished
    experiment = Experiment(tiny_config(name), folder, ())
    method = experiment._method.eval()
    for task, num_seen in zip(experiment._stream, _seen(experiment), strict=True):
        method.grow(task)
        with torch.no_grad():
            scores = method.predict(torch.zeros(3, 3, 16, 16))
            features = method.features(torch.zeros(3, 3, 16, 16))
        assert scores.shape == (3, num_seen)
        assert features.ndim == 2
        assert len(features) == 3


def _seen(experiment: Experiment) -> list[int]:
    sizes = experiment._stream.task_sizes
    return [sum(sizes[: index + 1]) for index in range(len(sizes))]


@pytest.mark.numeric
def test_the_same_seed_gives_the_same_bytes(finished: tuple[str, Path], tmp_path: Path) -> None:
    name, folder = finished
    torch.manual_seed(12345)  # whatever came before must not matter
    run(tiny_config(name), tmp_path / "again")
    assert differences(folder, tmp_path / "again") == []


class Interrupted(BaseException):
    pass


@dataclass
class InterruptEachPhase:
    """Raises once in every phase, at its n-th step."""

    after: int

    def __post_init__(self) -> None:
        self.done: set[tuple[int, str]] = set()
        self.first: dict[tuple[int, str], int] = {}

    def on_step(self, report: StepReport) -> None:
        here = (report.task, report.phase)
        self.first.setdefault(here, report.step)
        if here not in self.done and report.step - self.first[here] == self.after:
            self.done.add(here)
            raise Interrupted


@pytest.mark.parametrize("after", [0, 4])  # before the first checkpoint of a phase, and after it
def test_resuming_equals_not_stopping(
    finished: tuple[str, Path], tmp_path: Path, after: int
) -> None:
    name, expected = finished
    folder = tmp_path / "run"
    watcher = InterruptEachPhase(after)
    with pytest.raises(Interrupted):
        run(tiny_config(name), folder, watchers=(watcher,))
    for _ in range(100):
        try:
            resume(folder, watchers=(watcher,))
            break
        except Interrupted:
            continue
    phases = {(event["task"], event["phase"]) for event in events_of(expected) if "phase" in event}
    assert watcher.done == phases
    assert differences(expected, folder) == []


# ---------------------------------------------------------------------------------- what is read


@dataclass
class Clock:
    task: int = -1


class GuardedImages:
    """Images that may be read only while the clock shows a task that allows it."""

    def __init__(self, images: Images, tasks: Tensor, clock: Clock, allows_past: bool) -> None:
        self._images = images
        self._tasks = tasks
        self._clock = clock
        self._allows_past = allows_past

    @property
    def shape(self) -> tuple[int, int, int]:
        return self._images.shape

    @property
    def is_lazy(self) -> bool:
        return self._images.is_lazy

    def __len__(self) -> int:
        return len(self._images)

    def read(self, positions: Tensor, draws: Tensor | None = None) -> Tensor:
        tasks = self._tasks[positions]
        assert not (tasks > self._clock.task).any(), "images of a later task were read"
        if not self._allows_past:
            assert not (tasks < self._clock.task).any(), "images of an earlier task were read"
        return self._images.read(positions, draws)

    def select(self, positions: Tensor) -> GuardedImages:
        chosen = self._images.select(positions)
        return GuardedImages(chosen, self._tasks[positions], self._clock, self._allows_past)


@pytest.mark.parametrize("name", list(METHODS))
def test_only_the_task_under_way_is_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, clock = tiny_config(name), Clock()
    size = TINY[name]()[2][0]

    def guard(images: ImageSet, allows_past: bool) -> ImageSet:
        tasks = images.labels // size  # classes come in their natural order
        return replace(images, images=GuardedImages(images.images, tasks, clock, allows_past))

    def load(data: DataConfig) -> Dataset:
        found = load_colours(data)
        return replace(found, train=guard(found.train, False), test=guard(found.test, True))

    begin_task = METHODS[name].begin_task

    def begin(self: Method, task: Task, reader: Reader) -> None:
        clock.task = task.index
        begin_task(self, task, reader)

    monkeypatch.setattr(experiment_module, "load_dataset", load)
    monkeypatch.setattr(METHODS[name], "begin_task", begin)
    run(config, tmp_path / "run")
    assert clock.task == len(TINY[name]()[2]) - 1


# ---------------------------------------------------------------------------------- what is moved


@pytest.mark.numeric
@pytest.mark.parametrize("name", list(METHODS))
def test_the_parameters_of_a_phase_get_gradient_and_no_others(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way: dict[str, Any] = {}
    got_gradient: dict[tuple[int, str, str], bool] = defaultdict(bool)
    fit, clip = Trainer.fit, trainer_module.clip_gradients

    def noted_fit(self: Trainer, method: Method, task: Task, phase: Phase, **more: Any) -> None:
        under_way.update(method=method, task=task.index, phase=phase)
        fit(self, method, task, phase, **more)

    def noted_clip(config: OptimizerConfig, parameters: Any) -> None:
        phase: Phase = under_way["phase"]
        moving = {id(parameter) for parameter in phase.parameters}
        for key, parameter in under_way["method"].named_parameters():
            if id(parameter) in moving:
                has_gradient = parameter.grad is not None and bool((parameter.grad != 0).any())
                got_gradient[under_way["task"], phase.name, key] |= has_gradient
            else:
                assert parameter.grad is None, f"{key} is not part of phase {phase.name}"
        clip(config, parameters)

    monkeypatch.setattr(Trainer, "fit", noted_fit)
    monkeypatch.setattr(trainer_module, "clip_gradients", noted_clip)
    run(tiny_config(name), tmp_path / "run")
    assert got_gradient
    assert [place for place, has_gradient in got_gradient.items() if not has_gradient] == []
