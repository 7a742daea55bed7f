"""A guard that cannot be checked is no guard: the update is refused before it starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from remnant.images import Task
from remnant.learner import Learner, learn_into_store, work_folder
from remnant.learner.measuring import GuardError, Measured, name_classes
from remnant.learner.work_folder import has_checkpoint
from remnant.methods import METHODS
from remnant.phases import Phase, Reader
from tests.support.command_line import Command
from tests.support.small_learner import (
    TINY,
    Counter,
    TaughtPixels,
    stripes,
    tiny_learner,
    write_stripes,
)

REFUSED = (
    "the guard cannot be checked: there are no images to measure {} on. Give test images of every "
    "old class, or set no guard. Nothing was changed."
)


class Forgetful(TaughtPixels):
    """Keeps no exemplars, as lwf, ewc and finetune."""

    uses_memory = False


class Untrained(TaughtPixels):
    """Holds images out by itself, as ranpac and ncm: none of the class a."""

    trains = False

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        return iter(())

    def held_out(self) -> tuple[Tensor, Tensor]:
        return torch.tensor([1]), torch.eye(self.classifier.num_classes)[1:2]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "x.remnant"
    learn_into_store(path, *stripes("a", "c"), **TINY)
    return path


def test_without_images_of_old_classes_a_guarded_update_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(METHODS, "pixels", Forgetful)
    learner = tiny_learner(guard=5).partial_fit(*stripes("a", "c"))  # nothing is old yet
    before, counter = learner.digest(), Counter()
    with pytest.raises(GuardError) as told:
        learner.partial_fit(*stripes("e"), watchers=(counter,))
    assert str(told.value) == REFUSED.format("'a' (and 1 more class)")
    assert counter.steps == []  # no time was spent on it
    assert learner.digest() == before
    learner.set_params(guard=100).partial_fit(*stripes("e"), test=stripes("a", "c", seed=1))
    learner.set_params(guard=None).partial_fit(*stripes("f"))
    assert learner.classes_.tolist() == ["a", "c", "e", "f"]


def test_a_test_set_must_have_every_old_class(store: Path) -> None:
    content = store.read_bytes()
    with pytest.raises(GuardError) as told:
        learn_into_store(store, *stripes("e"), test=stripes("c", "e"), **TINY | {"guard": 100})
    assert str(told.value) == REFUSED.format("'a'")
    assert store.read_bytes() == content


def test_a_class_without_exemplars_is_not_measured() -> None:
    learner = tiny_learner(guard=100).partial_fit(*stripes("a", "c"))
    assert learner.memory_ is not None
    learner.memory_.remove_class(1)
    with pytest.raises(GuardError) as told:
        learner.partial_fit(*stripes("e"))
    assert str(told.value) == REFUSED.format("'c'")


def test_a_method_that_holds_out_too_few_by_itself_is_noted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "pixels", Untrained)
    learner = tiny_learner(guard=100, quiet=False).partial_fit(*stripes("a", "c"))
    assert "guard" not in capsys.readouterr().err
    learner.partial_fit(*stripes("e"))
    assert (
        "note: the guard cannot be checked for 'a': there are no images to measure on. Give test "
        "images of every old class."
    ) in capsys.readouterr().err


def test_what_was_stopped_before_can_still_be_continued(store: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        learn_into_store(store, *stripes("e"), quiet=True, watchers=(Counter(9),))
    with pytest.raises(GuardError):
        learn_into_store(store, *stripes("e"), quiet=True, guard=5, test=stripes("c"))
    assert has_checkpoint(store)


def learn_twice(store: Path, images: Any, monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
    """As by a process that is killed after it wrote the store, and then started again."""
    with monkeypatch.context() as patch:
        patch.setattr(work_folder, "_remove", lambda _: None)
        learn_into_store(store, *images, **TINY | {"guard": 100}, **given)
    done, counter = Learner.load(store), Counter()
    learn_into_store(store, *images, **TINY | {"guard": 100}, **given, watchers=(counter,))
    assert counter.steps == []
    assert Learner.load(store).digest() == done.digest()
    assert Learner.load(store).history_ == done.history_


@pytest.mark.parametrize("takes_known_classes", [True, False])
def test_a_first_update_that_is_done_is_not_checked_when_it_is_repeated(
    tmp_path: Path, takes_known_classes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Forgetful, "takes_known_classes", takes_known_classes)
    monkeypatch.setitem(METHODS, "pixels", Forgetful)
    learn_twice(tmp_path / "x.remnant", stripes("a", "c"), monkeypatch)


def test_an_update_tested_on_old_classes_only_is_not_checked_when_it_is_repeated(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn_twice(store, stripes("e"), monkeypatch, test=stripes("a", "c", seed=1))
    assert Learner.load(store).classes_.tolist() == ["a", "c", "e"]


def test_the_command_says_what_to_do(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "pixels", Forgetful)
    tiny_learner().partial_fit(*stripes("a", "c")).save(tmp_path / "x.remnant")
    write_stripes(tmp_path / "more", "e")
    told = command("learn", tmp_path / "x.remnant", tmp_path / "more", "--guard", "5").sentence
    assert told == REFUSED.format("'a' (and 1 more class)")
    assert Learner.load(tmp_path / "x.remnant").classes_.tolist() == ["a", "c"]


def test_classes_that_fell_are_counted() -> None:
    assert [name_classes(["a", *others]) for others in ("", "b", "bc")] == [
        "'a'",
        "'a' (and 1 more class)",
        "'a' (and 2 more classes)",
    ]
    before, after = {"a": 90.0, "b": 90.0, "c": 90.0}, {"a": 80.0, "b": 50.0, "c": 89.0}
    counts = dict.fromkeys(before, 10)
    measured = Measured("test", 30, 73.0, after=after, before=before, num_old_images=counts)
    with pytest.raises(GuardError, match=r"^'b' \(and 1 more class\) would fall from 90.0 to 50.0"):
        measured.check(5)
