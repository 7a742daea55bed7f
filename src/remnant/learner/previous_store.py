"""The store as it was before its last update, kept beside it so that the update can be undone.

`NAME.remnant.before` takes as many bytes as the store did. Forgetting a class removes it, since it
still has the class.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import uuid
from pathlib import Path

from remnant.errors import InputError
from remnant.files import PARTIAL, replacing, sync_folder


def previous_of(store: Path) -> Path:
    return store.with_name(f"{store.name}.before")


def keep_previous(store: Path) -> None:
    """Keep what `store` holds now; called just before it is replaced."""
    if not store.exists():
        return
    partial = store.with_name(f".{store.name}.{uuid.uuid4().hex}{PARTIAL}")
    try:
        os.link(store, partial)  # no copy: the store is replaced, never written to
    except OSError:  # a file system without links
        with store.open("rb") as old, replacing(previous_of(store), like=store) as new:
            shutil.copyfileobj(old, new)
        return
    os.replace(partial, previous_of(store))
    partial.unlink(missing_ok=True)  # a rename of one link over another of the same file is none
    sync_folder(store.parent)


def drop_previous(store: Path) -> None:
    previous_of(store).unlink(missing_ok=True)


def find_previous(store: Path) -> Path:
    """The earlier store.

    Raises:
        InputError: There is none, or it is the present one, which an update failed to replace.
    """
    previous = previous_of(store)
    is_there = previous.is_file()
    if not is_there or (store.is_file() and filecmp.cmp(previous, store, shallow=False)):
        raise InputError(
            f"{store} has nothing to undo: only the last update can be, once, and forgetting a "
            "class removes what was before."
        )
    return previous
