"""The store as it was before its last update, kept beside it so that the update can be undone.

`NAME.remnant.before` takes as many bytes as the store did. Forgetting a class removes it, since it
still has the class.
"""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

from remnant.errors import InputError
from remnant.files import PARTIAL, put_in_place, sync_folder


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
        shutil.copy2(store, partial)
    os.replace(partial, previous_of(store))
    partial.unlink(missing_ok=True)  # a rename of one link over another of the same file is none
    sync_folder(store.parent)


def drop_previous(store: Path) -> None:
    previous_of(store).unlink(missing_ok=True)


def restore_previous(store: Path) -> None:
    """Put the earlier store in the place of the present one.

    Raises:
        InputError: There is none.
    """
    previous = previous_of(store)
    if not previous.is_file():
        raise InputError(
            f"{store} has nothing to undo: only the last update can be, once, and forgetting a "
            "class removes what was before."
        )
    put_in_place(previous, store)
