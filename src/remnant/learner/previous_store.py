"""The store as it was before its last update, kept beside it so that the update can be undone.

`NAME.remnant.before` takes as many bytes as the store did. Forgetting a class removes it, since it
still has the class. So does saving a learner, which may have forgotten one: undoing that would take
back more than one update.
"""

from __future__ import annotations

import filecmp
import logging
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from remnant.errors import InputError
from remnant.files import PARTIAL, replacing, sync_folder

log = logging.getLogger(__name__)


def previous_of(store: Path) -> Path:
    return store.with_name(f"{store.name}.before")


def keep_previous(store: Path) -> None:
    """Keep what `store` holds now; called just before it is replaced."""
    if not store.exists():
        return
    partial = _partial_of(store)
    try:
        os.link(store, partial)  # no copy: the store is replaced, never written to
    except OSError:  # a file system without links
        with store.open("rb") as old, replacing(previous_of(store), like=store) as new:
            shutil.copyfileobj(old, new)
        return
    os.replace(partial, previous_of(store))
    partial.unlink(missing_ok=True)  # a rename of one link over another of the same file is none
    sync_folder(store.parent)


@contextmanager
def dropping_previous(store: Path) -> Iterator[None]:
    """Remove the earlier store once the block has replaced the present one.

    Until then it is aside, under a name that the next update sweeps up, so that no kill or power
    cut leaves it to be brought back. If the block ends before it replaced the store, it returns.
    """
    previous, aside = previous_of(store), _partial_of(store)
    if not previous.exists():
        yield
        return
    before = which_file(store)
    os.replace(previous, aside)
    try:
        yield
    except BaseException:  # some come after the new store is in place
        if which_file(store) == before:
            os.replace(aside, previous)
        raise
    finally:
        _remove(aside)


def which_file(store: Path) -> tuple[int, int] | None:
    """Which file it is, as `os.path.samestat` tells files apart; None if there is none."""
    try:
        found = store.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _remove(aside: Path) -> None:
    try:
        aside.unlink(missing_ok=True)
    except OSError as error:
        log.warning(
            "%s, the store from before, could not be removed (%s); the next update removes it.",
            aside,
            error.strerror or error,
        )


def _partial_of(store: Path) -> Path:
    return store.with_name(f".{store.name}.{uuid.uuid4().hex}{PARTIAL}")


def find_previous(store: Path) -> Path:
    """The earlier store.

    Raises:
        InputError: There is none, or it is the present one, which an update failed to replace.
    """
    previous = previous_of(store)
    is_there = previous.is_file()
    if not is_there or (store.is_file() and filecmp.cmp(previous, store, shallow=False)):
        raise InputError(
            f"{store} has nothing to undo: only the last update can be undone, and only once; "
            "forgetting a class or saving a learner also discards the earlier store."
        )
    return previous
