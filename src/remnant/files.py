"""The one way remnant writes files: temporary name, sync, rename."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from remnant.errors import InputError

PARTIAL = ".remnant.tmp"  # ends the name of a file that is being written: nobody else's does

# What file systems answer that have no modes (FAT, some network ones), cannot sync a folder, or
# have no locks.
_NO_MODES = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
_STATUS = "/proc/self/status"  # of Linux
log = logging.getLogger(__name__)


class UnsyncedError(OSError):
    """A new file is in its place, but the system cannot promise that it survives a power cut."""

    def __init__(self, error: OSError, path: Path) -> None:
        self.reason = reason = getattr(error, "reason", error.strerror or str(error))
        super().__init__(
            error.errno or errno.EIO,
            f"the new {path.name} is in place, but may not survive a power cut ({reason})",
            str(path),
        )


@contextmanager
def replacing(path: Path, like: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path`, whole, when the block ends without error.

    It gets the mode of `like`, by default of the file that it replaces.

    Raises:
        UnsyncedError: It did, but that may not survive a power cut. After any other error, the old
            file is there.
    """
    make_folder(path.parent)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PARTIAL, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _set_mode(name, _mode_of(like or path))
        put_in_place(Path(name), path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def put_in_place(new: Path, path: Path) -> None:
    """Rename a file that has been synced to its final name, for good.

    Raises:
        UnsyncedError: It is there, but may not be after a power cut.
    """
    os.replace(new, path)
    try:
        sync_folder(path.parent)
    except OSError as error:
        raise UnsyncedError(error, path) from None


def _set_mode(name: str, mode: int) -> None:
    try:
        os.chmod(name, mode)
    except OSError as error:
        if error.errno not in _NO_MODES:
            raise


def _mode_of(path: Path) -> int:
    """What the owner has allowed for a file, or what the process allows for a new one."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0o666 & ~_umask()


def _umask() -> int:
    """What the process takes from the mode of new files."""
    try:
        with open(_STATUS) as status:
            return next(int(line.split()[1], 8) for line in status if line.startswith("Umask:"))
    except (OSError, StopIteration):  # elsewhere it can only be read by setting it
        found = os.umask(0o077)
        os.umask(found)
        return found


@contextmanager
def staged(path: Path) -> Iterator[BinaryIO]:
    """A new file in a folder that nobody reads before `sync_all`; many of them are then cheap."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        yield file


def sync_all() -> None:
    """Make all that was written, by any process, survive a power cut."""
    os.sync()


def make_folder(folder: Path) -> None:
    """Make a folder, with those above it, that survives a power cut."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


def write_bytes(path: Path, content: bytes) -> None:
    with replacing(path) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def read_json_object(path: Path, what: str) -> dict[str, Any]:
    """The JSON object in a file; `what` says in errors what it must be.

    Raises:
        InputError: The file is missing, damaged, or holds something else.
    """
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path} does not exist. Check the path.") from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path} is not valid JSON: {error.msg} in line {error.lineno}, column {error.colno}. "
            "Correct it, or restore it from a copy."
        ) from None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InputError(
            f"{path} must hold one JSON object, {what}; it is damaged. Restore it from a copy."
        )
    return value


def is_partial(name: str) -> bool:
    """Whether a file of this name is one that we were writing."""
    return name.startswith(".") and name.endswith(PARTIAL)


def remove_temporary_files(folder: Path) -> None:
    """Delete what a killed process of ours left behind, and nothing else."""
    for path in folder.rglob(f".*{PARTIAL}"):
        if path.is_file():
            path.unlink(missing_ok=True)


def claim_folder(
    folder: Path, advice: str, is_ours: Callable[[str], bool] = lambda _: False
) -> None:
    """Make a folder to write into, or take one that holds nothing but what we left there.

    Args:
        advice: What to do about a folder that is in use, for the error.
        is_ours: Whether a file of this name may already be there; half-written ones always may.

    Raises:
        InputError: `folder` is a file, or holds something that is not ours.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} must be a folder to write into; it is a file. {advice}")
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    others = [name for name in found if not (is_partial(name) or is_ours(name))]
    if others:
        raise InputError(f"{folder} is not empty: it holds {min(others)}. {advice}")
    make_folder(folder)


@contextmanager
def new_folder(folder: Path, advice: str, written: Sequence[str]) -> Iterator[None]:
    """A new or empty folder to write into, as `claim_folder` checks it.

    If the block fails before there is a folder inside, the files that it wrote are removed, and the
    folder with them if it was made here and is empty. Nobody else's files are touched.

    Args:
        written: The names of the files that the block writes.

    Raises:
        InputError: As `claim_folder`.
    """
    was_there = folder.is_dir()
    claim_folder(folder, advice)
    remove_temporary_files(folder)
    try:
        yield
    except BaseException:
        if not any(path.is_dir() for path in folder.iterdir()):
            for name in written:
                (folder / name).unlink(missing_ok=True)
            remove_temporary_files(folder)
        if not was_there and not any(folder.iterdir()):
            folder.rmdir()
        raise


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Within the block, no other process can enter one for the same existing file.

    The system ends the claim with the process, however that stops. The file may be removed inside
    the block: whoever has opened it before is turned away as well. Where the file system has no
    locks, a warning says that nobody is kept out.

    Raises:
        InputError: Another process is inside.
    """
    import fcntl  # only here: Windows lacks it

    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = os.path.samestat(os.fstat(file.fileno()), path.stat())
        except (BlockingIOError, FileNotFoundError):
            is_free = False
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            is_free = True
            log.warning(
                "the file system of %s has no locks: make sure that no other process writes there.",
                path.parent,
            )
        if not is_free:
            raise InputError(
                f"{path.parent} is being written by another process. Wait for it to end, or stop "
                "it first."
            )
        yield
