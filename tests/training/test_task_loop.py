from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from remnant.archives import archive_digest
from remnant.data import Dataset
from remnant.errors import InputError
from remnant.memory import Keeps, Memory, MemoryConfig
from remnant.memory.codecs.webp import WebpConfig
from remnant.methods import METHODS, Method, MethodConfig, build_method, kept_bytes
from remnant.phases import StepReport
from remnant.settings import Settings
from remnant.training.batches import Preprocessing
from remnant.training.checkpoints import Checkpoints, Point
from remnant.training.network_state import Arrays
from remnant.training.processes import Processes, TrainingConfig
from remnant.training.task_loop import TaskLoop, empty_tasks, load_standing_state, standing_state
from remnant.training.trainer import Trainer
from remnant.views.augment import AugmentConfig
from tests.support.pixel_method import Pixels, PixelsConfig, schedule
from tests.support.worlds import MEAN, STD, make_stream

SHAPE = (16, 16, 3)


class Plan(Settings):
    seed: int = 0
    memory: MemoryConfig | None = MemoryConfig(budget="3images/class")
    method: MethodConfig = PixelsConfig(first=schedule(2, 4))


@pytest.fixture(autouse=True)
def pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "pixels", Pixels)


class StopAt:
    def __init__(self, step: int) -> None:
        self._step = step

    def on_step(self, report: StepReport) -> None:
        if report.step == self._step:
            raise KeyboardInterrupt


class World:
    """Two tasks of two classes, and a method that is to learn them."""

    def __init__(self, folder: Path, dataset: Dataset) -> None:
        self.stream = make_stream(dataset)
        self.method = build_method(Plan(), SHAPE, [2, 2])
        self.checkpoints = Checkpoints(folder)
        processes = Processes(TrainingConfig(accelerator="cpu", threads=1))
        look = Preprocessing(AugmentConfig(train="flip"), MEAN, STD)
        trainer = Trainer(processes, look, 0, checkpoint_every_steps=3)
        self.loop = TaskLoop(self.method, trainer, self.checkpoints, 0, self.save)

    def save(self, point: Point, arrays: Arrays) -> None:
        self.checkpoints.save(point, arrays, {})


def equal(first: tuple[Arrays, Any], second: tuple[Arrays, Any]) -> bool:
    arrays, others = first[0], second[0]
    same = all(np.array_equal(arrays[name], others[name]) for name in arrays)
    return set(arrays) == set(others) and same and first[1] == second[1]


@pytest.mark.parametrize("stop_at", [0, 2, 3, 7])
def test_a_task_goes_on_from_any_checkpoint_as_if_it_had_not_stopped(
    stop_at: int, tmp_path: Path, dataset: Dataset
) -> None:
    whole, broken, resumed = (
        World(tmp_path / name, dataset) for name in ("whole", "broken", "broken")
    )
    whole.loop.learn([whole.stream[0]], Point(0))
    with pytest.raises(KeyboardInterrupt):
        broken.loop.learn([broken.stream[0]], Point(0), (StopAt(stop_at),))
    torch.manual_seed(77)  # whatever came between must not matter
    point = resumed.checkpoints.newest_readable() or Point(0)
    assert point.step == stop_at // 3 * 3
    resumed.loop.learn([resumed.stream[0]], point)
    assert equal(standing_state(whole.method), standing_state(resumed.method))


def test_what_a_budget_cannot_hold_is_refused_before_anything_is_learned(
    tmp_path: Path, dataset: Dataset
) -> None:
    world = World(tmp_path, dataset)
    config = MemoryConfig(budget="9B/class", codec=WebpConfig())
    world.method.memory = Memory(config, SHAPE, seed=0)
    with pytest.raises(InputError, match=r"memory\.budget must hold one exemplar"):
        world.loop.learn([world.stream[0]], Point(0), (StopAt(0),))


def test_a_task_that_ended_is_passed_and_only_its_memory_filled_again(
    tmp_path: Path, dataset: Dataset
) -> None:
    whole, again = World(tmp_path, dataset), World(tmp_path, dataset)
    whole.loop.learn([whole.stream[0]], Point(0))
    point = whole.checkpoints.newest_readable()
    assert point is not None
    assert point.is_end
    again.loop.learn([again.stream[0]], point, (StopAt(0),))
    assert equal(standing_state(whole.method), standing_state(again.method))


def test_a_standing_is_taken_up_by_a_method_grown_as_often(
    tmp_path: Path, dataset: Dataset
) -> None:
    world = World(tmp_path, dataset)
    world.loop.learn([world.stream[0]], Point(0))
    state = standing_state(world.method)
    other = build_method(Plan(seed=5), SHAPE, [2, 2])
    other.grow(empty_tasks([2], SHAPE)[0])
    load_standing_state(other, *state, "here")
    assert equal(standing_state(other), state)
    with pytest.raises(InputError, match="here does not hold a usable memory"):
        load_standing_state(other, state[0], {}, "here")


def test_without_a_memory_there_are_weights_alone() -> None:
    method = build_method(Plan(memory=None), SHAPE, [2])
    arrays, words = standing_state(method)
    assert words is None
    assert all(name.startswith("model/") for name in arrays)
    load_standing_state(method, arrays, words, "here")


class Labels:
    """A store that is neither a memory nor parameters."""

    name = "labels"

    def __init__(self, numbers: list[int], source: str) -> None:
        self.numbers, self.source = np.array(numbers), source

    @property
    def nbytes(self) -> int:
        return self.numbers.nbytes

    def ledger(self) -> dict[str, Any]:
        return {"numbers": self.nbytes}

    def state_arrays(self) -> tuple[dict[str, np.ndarray], Any]:
        return {"numbers": self.numbers}, {"source": self.source}

    def load_arrays(self, arrays: Mapping[str, np.ndarray], metadata: Any, source: str) -> None:
        self.numbers, self.source = arrays["numbers"], metadata["source"]

    def digest(self) -> str:
        return archive_digest({}, self.state_arrays()[0])


class Labelled(Pixels):
    labels = Labels([], "")

    def kept(self) -> list[Keeps]:
        return [*super().kept(), self.labels]


def test_a_store_of_a_method_is_taken_up_like_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "pixels", Labelled)
    method, other = (build_method(Plan(), SHAPE, [2]) for _ in range(2))
    method.labels = Labels([3, 1, 4], "a friend")
    other.labels = Labels([], "")
    arrays, metadata = standing_state(method)
    assert {name.partition("/")[0] for name in arrays} == {"model", "memory", "labels"}
    load_standing_state(other, arrays, metadata, "here")
    assert other.labels.numbers.tolist() == [3, 1, 4]
    assert other.labels.source == "a friend"
    assert kept_bytes(other)["labels"] == 3 * 8


def test_first_weights_are_a_function_of_the_seed() -> None:
    def start(seed: int) -> Method[Any]:
        plan = Plan(method=PixelsConfig(first=schedule()), seed=seed)
        method = build_method(plan, SHAPE, [2])
        method.grow(empty_tasks([2], SHAPE)[0])
        return method

    first, same, other = start(0), start(0), start(1)
    assert equal(standing_state(first), standing_state(same))
    assert not equal(standing_state(first), standing_state(other))


def test_empty_tasks_tell_shapes_alone() -> None:
    first, second = empty_tasks([2, 3], SHAPE)
    assert (first.index, first.num_seen_classes, len(first.train)) == (0, 2, 0)
    assert (second.num_old_classes, second.num_new_classes) == (2, 3)
    assert second.known_labels == []
