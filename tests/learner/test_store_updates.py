"""Updates that fail, meet another or are interrupted: the store stays whole, and no bit is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from remnant.errors import InputError
from remnant.learner import Learner, defaults, forget_in_store, learn_into_store
from remnant.learner import store as store_module
from remnant.learner import work_folder as work_folder_module
from remnant.learner.learner_state import LearnerState
from remnant.learner.work_folder import only_updater, work_folder
from remnant.phases import StepReport
from tests.support.small_learner import TINY, Counter, stripes, tiny_learner
from tests.support.striped_store import expected_digest, names_in

SUPPORT = Path(__file__).parents[1] / "support"


# ----------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("update", "told"),
    [
        ((stripes("e")[0], ["e"]), "6 images and 1 labels"),
        ((["missing.png"], ["e"]), "cannot be read"),
        ((stripes(1)), "all be text or all be whole numbers"),
    ],
)
def test_bad_input_leaves_the_store_unchanged_and_nothing_beside_it(
    store: Path, update: tuple[Any, Any], told: str
) -> None:
    content = store.read_bytes()
    with pytest.raises(InputError, match=told):
        learn_into_store(store, *update, quiet=True)
    assert store.read_bytes() == content
    assert names_in(store.parent) == [store.name]


def test_a_full_disk_leaves_the_old_store(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = store.read_bytes()

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="No space left"):
            Learner.load(store).save(store)
    assert store.read_bytes() == content
    assert names_in(store.parent) == [store.name]


def test_whoever_says_no_at_the_end_leaves_the_store(store: Path) -> None:
    content = store.read_bytes()

    def refuse() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn_into_store(store, *stripes("e"), quiet=True, before_writing=refuse)
    assert store.read_bytes() == content


# ------------------------------------------------------------------------------------ two at a time


def test_a_link_to_a_store_is_the_store(store: Path) -> None:
    link = store.with_name("link.remnant")
    link.symlink_to(store)
    with only_updater(store), pytest.raises(InputError, match="by another process"):
        forget_in_store(link, "a")
    forget_in_store(link, "a")
    assert link.is_symlink()
    assert "a" not in Learner.load(store).classes_


def test_a_second_updater_gets_a_clear_error(store: Path) -> None:
    class Rival:
        told = ""

        def on_step(self, report: StepReport) -> None:
            try:
                forget_in_store(store, "a")
            except InputError as error:
                self.told = str(error)

    rival = Rival()
    learn_into_store(store, *stripes("e"), quiet=True, watchers=(rival,))
    assert "is being updated by another process. Wait for it to end" in rival.told
    assert Learner.load(store).digest() == expected_digest()
    forget_in_store(store, "a")  # and is let in afterwards


def test_a_store_can_be_read_while_it_is_updated(store: Path) -> None:
    before = Learner.load(store).digest()
    with only_updater(store):
        assert Learner.load(store).digest() == before
        with pytest.raises(InputError, match="being updated"):
            Learner.load(store).save(store)


# ------------------------------------------------------------------------------------- interruption


def test_an_interrupted_update_goes_on_from_its_checkpoint(store: Path) -> None:
    content, counter = store.read_bytes(), Counter()
    with pytest.raises(KeyboardInterrupt):
        learn_into_store(store, *stripes("e"), quiet=True, watchers=(Counter(9),))
    assert store.read_bytes() == content
    assert names_in(store.parent) == [store.name, work_folder(store).name]
    learner = learn_into_store(store, *stripes("e"), quiet=True, watchers=(counter,))
    assert counter.steps[0] == 8
    assert learner.digest() == expected_digest()
    assert names_in(store.parent) == [store.name, f"{store.name}.before"]


def test_an_interrupted_update_goes_on_with_the_threads_that_it_had(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last bits of sums depend on them."""
    used: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", used.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    with pytest.raises(KeyboardInterrupt):
        learn_into_store(store, *stripes("e"), threads=None, quiet=True, watchers=(Counter(9),))
    learn_into_store(store, *stripes("f"), threads=None, quiet=True)  # another update
    assert 3 not in used
    with pytest.raises(KeyboardInterrupt):
        learn_into_store(store, *stripes("e"), threads=None, quiet=True, watchers=(Counter(9),))
    learn_into_store(store, *stripes("e"), threads=None, quiet=True)
    assert used[-1] == 3


def test_a_first_update_goes_on_too_though_there_is_no_store_yet(tmp_path: Path) -> None:
    path, counter = tmp_path / "new.remnant", Counter()
    with pytest.raises(KeyboardInterrupt):
        learn_into_store(path, *stripes("a", "c"), watchers=(Counter(9),), **TINY)
    assert not path.exists()
    learner = learn_into_store(path, *stripes("a", "c"), watchers=(counter,), **TINY)
    assert counter.steps[0] == 8
    assert learner.digest() == tiny_learner().partial_fit(*stripes("a", "c")).digest()


def test_a_damaged_checkpoint_costs_time_alone(store: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        learn_into_store(store, *stripes("e"), quiet=True, watchers=(Counter(9),))
    for path in work_folder(store).glob("*.safetensors"):
        path.write_bytes(b"")
    learner = learn_into_store(store, *stripes("e"), quiet=True)
    assert learner.digest() == expected_digest()


@pytest.mark.parametrize("given", [{}, {"epochs": None}, {"epochs": None, "minutes": 0.001}])
def test_an_update_that_was_killed_when_it_was_done_is_not_learned_twice(
    store: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    monkeypatch.setitem(defaults._SHOWN, "cpu", 400)  # 20 epochs, or 16 beside more exemplars
    write = store_module.write_store
    written: list[LearnerState] = []

    def write_and_die(path: Path, state: LearnerState) -> None:
        write(path, state)
        written.append(state)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "write_store", write_and_die)
        with pytest.raises(KeyboardInterrupt):
            learn_into_store(store, *stripes("e"), quiet=True, **given)
    learner = learn_into_store(store, *stripes("e"), quiet=True, **given)
    assert learner.digest() == written[0].digest()
    assert len(learner.history) == 2
    assert names_in(store.parent) == [store.name, f"{store.name}.before"]
    more = learn_into_store(store, *stripes("e"), quiet=True, **given)  # to train on is allowed
    assert len(more.history) == 3
    assert more.num_exemplars == learner.num_exemplars  # but nothing is stored twice


def test_after_a_kill_when_it_was_done_another_command_is_obeyed(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(work_folder_module, "_remove", lambda _: None)
        learn_into_store(store, *stripes("e"), quiet=True)
    assert len(learn_into_store(store, *stripes("e"), quiet=True).history) == 2
    with monkeypatch.context() as patch:
        patch.setattr(work_folder_module, "_remove", lambda _: None)
        learn_into_store(store, *stripes("g"), quiet=True)
    assert len(learn_into_store(store, *stripes("g"), epochs=7, quiet=True).history) == 4


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while not condition():
        assert process.poll() is None, "the program ended too soon"
        time.sleep(0.01)


def test_a_kill_during_an_update_leaves_the_store_and_costs_no_bit(store: Path) -> None:
    content, work = store.read_bytes(), work_folder(store)
    command = [sys.executable, str(SUPPORT / "teach_pixels.py"), str(store), "e", "0.2"]
    with subprocess.Popen(command) as process:
        wait_for(lambda: len([*work.glob("*-step-*.safetensors")]) == 2, process)
        with pytest.raises(InputError, match="being updated by another process"):
            forget_in_store(store, "a")
        process.kill()
    assert store.read_bytes() == content
    counter = Counter()
    learner = learn_into_store(store, *stripes("e"), watchers=(counter,), **TINY)
    assert counter.steps[0] > 0
    assert learner.digest() == expected_digest()
    assert names_in(store.parent) == [store.name, f"{store.name}.before"]


# --------------------------------------------------------------------------------- what others left


def test_what_a_killed_writer_left_is_swept_up(store: Path) -> None:
    left = store.with_name(f".{store.name}.abc123.remnant.tmp")
    removed = store.with_name(f".{store.name}.work.abc123.remnant.tmp")
    other = store.with_name(".other.remnant.abc123.remnant.tmp")
    left.write_bytes(b"half a store")
    removed.mkdir()
    (removed / "lock").touch()
    other.write_bytes(b"somebody else's")
    Learner.load(store).save(store)
    assert not left.exists()
    assert not removed.exists()
    assert other.exists()


def test_a_work_folder_with_a_strangers_file_is_refused_and_left_as_it_is(store: Path) -> None:
    folder = work_folder(store)
    folder.mkdir()
    (folder / "thesis.tex").write_text("precious")
    hidden = store.with_name(f".{store.name}.notes.tmp")
    hidden.write_text("precious")
    content = store.read_bytes()
    with pytest.raises(InputError, match=r"holds thesis\.tex"):
        learn_into_store(store, *stripes("e"), **TINY)
    assert (folder / "thesis.tex").read_text() == hidden.read_text() == "precious"
    assert store.read_bytes() == content


def test_a_strangers_file_that_comes_during_an_update_is_kept(store: Path) -> None:
    folder = work_folder(store)

    def put() -> None:
        (folder / "thesis.tex").write_text("precious")

    learn_into_store(store, *stripes("e"), before_writing=put, **TINY)
    assert names_in(folder) == ["thesis.tex"]
