"""The store from before the last update is kept for `undo`, and for nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from remnant.errors import InputError
from remnant.files import UnsyncedError
from remnant.learner import Learner, forget_in_store, learn_into_store
from remnant.learner import store as store_module
from remnant.learner.previous_store import previous_of
from remnant.learner.store import read_store, undo_in_store
from tests.support.command_line import Command
from tests.support.small_learner import TINY, stripes


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """After two updates, of which the last can be undone."""
    path = tmp_path / "x.remnant"
    learn_into_store(path, *stripes("a"), **TINY)
    learn_into_store(path, *stripes("c"), **TINY)
    return path


def test_a_saved_learner_cannot_be_undone_by_two_updates(store: Path) -> None:
    learner = Learner.load(store).set_params(quiet=True, threads=1)
    learner.partial_fit(*stripes("e")).save(store)
    with pytest.raises(
        InputError, match=r"has nothing to undo: .* or saving a learner also discards"
    ):
        undo_in_store(store)
    assert read_store(store).classes == ("a", "c", "e")


def test_a_class_forgotten_in_python_cannot_be_brought_back(store: Path) -> None:
    learner = Learner.load(store)
    learner.forget("a")
    learner.save(store)
    assert [path.name for path in store.parent.iterdir()] == [store.name]
    with pytest.raises(InputError, match="has nothing to undo"):
        undo_in_store(store)


@pytest.mark.parametrize("use", ["forget", "save"])
@pytest.mark.parametrize("ending", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_if_the_store_was_not_replaced_the_last_update_can_still_be_undone(
    store: Path, use: str, ending: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise ending

    learner, files = Learner.load(store), contents(store.parent)
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "write_archive", fail)
        with pytest.raises(type(ending)):
            forget_in_store(store, "a") if use == "forget" else learner.save(store)
    assert contents(store.parent) == files
    assert undo_in_store(store).classes == ("a",)


@pytest.mark.parametrize("ending", [UnsyncedError(OSError(5, "x"), Path("x")), KeyboardInterrupt()])
def test_whatever_comes_after_a_new_store_leaves_no_forgotten_class(
    store: Path, ending: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = store_module.write_archive

    def write_and_end(*arguments: Any) -> None:
        write(*arguments)
        raise ending

    monkeypatch.setattr(store_module, "write_archive", write_and_end)
    with pytest.raises((OSError, KeyboardInterrupt)):
        forget_in_store(store, "a")
    assert read_store(store).classes == ("c",)
    assert list(contents(store.parent)) == [store.name]


def test_a_store_from_before_that_stays_is_a_note_and_goes_with_the_next_update(
    store: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    unlink = os.unlink

    def fail(path: Any, *arguments: Any, **options: Any) -> None:
        if Path(path).name.startswith(f".{store.name}."):
            raise OSError(5, "Input/output error")
        unlink(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", fail)
        forget_in_store(store, "a")
    assert "the store from before, could not be removed (Input/output error)" in caplog.text
    assert not previous_of(store).exists()
    learn_into_store(store, *stripes("e"), **TINY)
    assert sorted(contents(store.parent)) == [store.name, previous_of(store).name]


def test_an_undo_that_cannot_be_synced_ends_in_a_sentence(
    command: Command, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path, path: Path) -> None:
        raise UnsyncedError(OSError(5, "Input/output error"), path)

    monkeypatch.setattr(store_module, "put_in_place", fail)
    told = command("undo", store).sentence
    assert told.startswith("the new x.remnant is in place, but may not survive a power cut")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
