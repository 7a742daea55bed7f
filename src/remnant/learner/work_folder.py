"""The work folder of a store, `NAME.remnant.work`: the lock and the checkpoints of an update.

A process that updates a store holds it until the update is done.
"""

from __future__ import annotations

import glob
import logging
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from remnant.errors import InputError
from remnant.files import (
    PARTIAL,
    UnsyncedError,
    claim_folder,
    is_partial,
    only_writer,
    remove_temporary_files,
)
from remnant.training.checkpoints import Checkpoints, is_checkpoint

log = logging.getLogger(__name__)
_LOCK = "lock"


class UnsyncedStoreError(UnsyncedError):
    """A new store is in its place, but may not survive a power cut."""


def explain_failure(error: OSError) -> str:
    """What stopped an update, and which store is there now, in sentences."""
    reason = f"{error.strerror or error}."
    return reason if isinstance(error, UnsyncedStoreError) else f"{reason} The store is unchanged."


def check_file(path: Path) -> None:
    if path.is_dir():
        raise InputError(
            f"{path} must be a store, which is one file; it is a folder. The "
            "store comes first, then the folder of images."
        )


def work_folder(path: Path) -> Path:
    """Where the checkpoints of an update are kept until it is done."""
    return path.with_name(f"{path.name}.work")


def has_checkpoint(path: Path) -> bool:
    """Whether an unfinished update of the store can continue instead of starting over."""
    return any(not point.is_start for point in Checkpoints(work_folder(path)).points())


@contextmanager
def only_updater(path: Path) -> Iterator[Path]:
    """The work folder of a store, for one process at a time; it is removed after success.

    After a failure it is kept if it holds checkpoints. That it cannot be removed is a note: the
    store is what it should be, and the next update removes it.

    Raises:
        InputError: Another process is updating the store.
    """
    check_file(path)
    folder = work_folder(path)
    with ExitStack() as stack:
        in_use = (
            f"{path} is being updated by another process. Wait for it to end, or stop it first."
        )
        try:
            _make_lock(folder)
        except FileNotFoundError:  # removed by another process just now
            raise InputError(in_use) from None
        try:
            stack.enter_context(only_writer(folder / _LOCK))
        except (InputError, FileNotFoundError):
            raise InputError(in_use) from None
        remove_temporary_files(folder)
        for left in path.parent.glob(f".{glob.escape(path.name)}.*{PARTIAL}"):
            # Left by a process that was killed while it wrote or cleaned up.
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)
        try:
            yield folder
        except UnsyncedStoreError:  # the new store is in place
            _remove(folder)
            raise
        except InputError:  # what was refused leaves nothing but what was learned before
            if not has_checkpoint(path):
                _remove(folder)
            raise
        except BaseException:
            if not any(folder.glob("*.safetensors")):
                _remove(folder)
            raise
        _remove(folder)


def _remove(folder: Path) -> None:
    try:
        _remove_at_once(folder)
    except OSError as error:
        log.warning(
            "%s could not be removed (%s); the next update of the store removes it.",
            folder,
            error.strerror or error,
        )


def _remove_at_once(folder: Path) -> None:
    """In one step for other processes: a half-removed folder would look like another update.

    If somebody else has put something there, only our own files are removed.
    """
    if any(not _is_ours(path.name) for path in folder.iterdir()):
        for path in folder.iterdir():
            if _is_ours(path.name):
                path.unlink(missing_ok=True)
        return
    gone = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}{PARTIAL}")
    os.replace(folder, gone)
    shutil.rmtree(gone, ignore_errors=True)


def _is_ours(name: str) -> bool:
    """Whether an update writes a file of this name into its work folder."""
    return name == _LOCK or is_checkpoint(name) or is_partial(name)


def _make_lock(folder: Path) -> None:
    try:
        claim_folder(folder, "Move that away, or choose another name for the store.", _is_ours)
        (folder / _LOCK).touch()
    except OSError:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()  # no space left, say: nothing else was done
        raise
