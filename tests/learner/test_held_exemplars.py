"""Old classes are measured on exemplars that an update was not trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from remnant.images import Task
from remnant.learner import Learner, learn_into_store
from remnant.learner.held_exemplars import EVERY
from remnant.learner.measuring import GuardError
from remnant.learner.upkeep import thin_store
from remnant.methods import METHODS
from remnant.phases import Reader
from tests.support.small_learner import Counter, TaughtPixels, stripes, tiny_learner
from tests.support.tiny_methods import TRIALS

ROOMY: dict[str, Any] = {
    "budget": "60images/class",
    "options": {"training.checkpoint_every_steps": 10},
}
WITH_MEMORY = [
    # The encoder of "tuned" takes seconds.
    pytest.param(name, marks=pytest.mark.slow) if name == "tuned" else name
    for name in TRIALS
    if METHODS[name].uses_memory and METHODS[name].trains and not METHODS[name].learns_once
]
replayed: list[np.ndarray] = []  # of the update under way: uint8 [N, 8, 8, 3]


class Spied(TaughtPixels):
    def begin_task(self, task: Task, reader: Reader) -> None:
        super().begin_task(task, reader)
        found = self.replay()
        replayed[:] = [] if found is None else list(found.images.read(torch.arange(len(found))))


@pytest.fixture(autouse=True)
def spied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "pixels", Spied)


def taught(**changes: Any) -> Learner:
    learner = tiny_learner(**(ROOMY | changes))
    return learner.partial_fit(*stripes("a", "c", per_class=40))


def untrained_images(learner: Learner) -> set[bytes]:
    """The exemplars that were always held back, as pixels: the codec is exact."""
    state = learner.state_
    memory = state.method.memory
    assert memory is not None
    return {
        one.payload
        for label in memory.labels
        for one in memory.exemplars(label)
        if one.digest() in state.untrained
    }


def seen() -> set[bytes]:
    return {np.asarray(image).tobytes() for image in replayed}


def test_images_held_back_become_exemplars_that_no_update_is_trained_on() -> None:
    learner = taught()
    assert learner.memory_.counts == [40, 40]  # 36 trained on, 4 held back, none lost
    held = untrained_images(learner)
    assert len(held) == 8
    for names in ("e", "f"):
        learner.partial_fit(*stripes(names, per_class=40))
        assert len(replayed) > 0
        assert not seen() & held
        assert held <= untrained_images(learner)
    assert learner.memory_.counts == [40] * 4


def test_old_classes_are_measured_on_exemplars_held_back() -> None:
    learner = taught().partial_fit(*stripes("e", per_class=40))
    entry = learner.history_[-1]
    assert entry["measured_on"] == "held-out"
    assert entry["measured_images"] == 4 + 8  # new ones, and four of each old class
    assert {name for name, _ in entry["class_accuracy_before"]} == {"a", "c"}


@pytest.mark.numeric
def test_a_guard_sees_a_loss_that_exemplars_trained_on_would_hide() -> None:
    """Images of noise can be learned by heart, and those that are not replayed are lost."""
    noise = np.random.default_rng(0).integers(0, 256, (160, 8, 8, 3), dtype=np.uint8)
    names = [name for name in "abcd" for _ in range(40)]
    settings = ROOMY | {"epochs": 20, "guard": 0, "options": None}
    learner = tiny_learner(**settings)
    learner.partial_fit(noise[:80], names[:80], test=(noise[:80], names[:80]))
    assert learner.history_[-1]["accuracy"] > 90
    with pytest.raises(GuardError, match=r"% of its 4 held-out images, more than the guard of 0"):
        learner.partial_fit(noise[80:], names[80:])


def test_a_class_that_was_taught_with_a_test_set_gives_some_of_its_exemplars() -> None:
    learner = tiny_learner(**ROOMY)
    learner.partial_fit(*stripes("a", "c", per_class=40), test=stripes("a", "c", seed=1))
    assert not learner.state_.untrained
    learner.partial_fit(*stripes("e", per_class=40))
    assert len(replayed) == 2 * (40 - 40 // EVERY)
    held = untrained_images(learner)
    assert not seen() & held
    assert len(held) == 12


def test_with_a_test_set_all_exemplars_are_trained_on() -> None:
    learner = taught()
    learner.partial_fit(*stripes("e", per_class=40), test=stripes("a", "e", seed=1))
    assert len(replayed) == 80
    assert not learner.state_.untrained


def test_small_classes_are_measured_on_what_was_trained_on_and_that_is_told() -> None:
    learner = tiny_learner().partial_fit(*stripes("a", "c"))
    learner.partial_fit(*stripes("e"))
    assert len(replayed) == 12
    assert learner.history_[-1]["measured_on"] == "held-out and exemplars"


def test_a_tight_budget_is_kept_and_spent_on_exemplars_to_train_on() -> None:
    learner = taught(budget="12images/class")
    assert learner.memory_.counts == [12, 12]
    assert len(learner.state_.untrained) == 2  # one of each class
    learner.partial_fit(*stripes("e", per_class=40))
    assert len(replayed) == 22
    assert learner.memory_.counts == [12] * 3


def test_more_images_of_a_class_hold_more_of_it_back() -> None:
    learner = taught()
    held = untrained_images(learner)
    learner.partial_fit(*stripes("a", per_class=20, seed=7))
    assert learner.memory_.counts == [60, 40]
    assert held < untrained_images(learner)
    learner.partial_fit(*stripes("e", per_class=20))
    assert not seen() & untrained_images(learner)


def test_what_is_held_back_outlives_a_file_and_goes_with_its_exemplars(tmp_path: Path) -> None:
    path = tmp_path / "x.remnant"
    learner = taught()
    learner.save(path)
    assert Learner.load(path).state_.untrained == learner.state_.untrained
    assert len(thin_store(path, "a", keep=25).untrained) == 2 + 4
    loaded = Learner.load(path)
    loaded.forget("a")
    assert len(loaded.state_.untrained) == 4


@pytest.mark.numeric
def test_an_interrupted_update_holds_the_same_back(tmp_path: Path) -> None:
    stores = [tmp_path / "x.remnant", tmp_path / "y.remnant"]
    for store in stores:
        taught().save(store)
    images = stripes("e", per_class=40)
    with pytest.raises(KeyboardInterrupt):
        learn_into_store(stores[0], *images, watchers=(Counter(stop_at=15),), quiet=True)
    one, other = (learn_into_store(store, *images, quiet=True) for store in stores)
    assert one.digest() == other.digest()
    assert one.untrained == other.untrained


@pytest.mark.numeric
@pytest.mark.parametrize("name", WITH_MEMORY)
def test_every_method_ranks_images_that_it_was_not_trained_on(name: str) -> None:
    """Two updates of classes that are large enough to hold images back."""
    trial = TRIALS[name]()
    given = trial.config.model_dump(mode="json", exclude={"name", "first", "later"})
    learner = tiny_learner(
        budget="12images/class",
        method=name,
        codec=trial.memory.codec.model_dump() if trial.memory else "raw",
        epochs=1,
        batch_size=60,
        learning_rate=None,
        options={f"method.{setting}": value for setting, value in given.items()},
    )
    for names in (("a", "c"), ("e",)):
        learner.partial_fit(*stripes(*names, per_class=20))
        state = learner.state_
        assert state.method.memory is not None
        held = {
            label
            for label in state.method.memory.labels
            for one in state.method.memory.exemplars(label)
            if one.digest() in state.untrained
        }
        assert held == set(range(len(state.classes)))
    assert learner.history_[-1]["measured_on"] == "held-out"
