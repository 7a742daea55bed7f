"""The one way remnant writes files: temporary name, sync, rename; and its one archive format.

An archive is a safetensors file whose single metadata key holds sorted JSON with a format name, a
version, free metadata and a SHA-256 of everything else. Equal content gives equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import safetensors
import safetensors.numpy

from remnant.contracts import InputError

Arrays = Mapping[str, np.ndarray]
_KEY = "remnant"  # the only metadata key: safetensors writes several in no fixed order

_UMASK = os.umask(0)  # can only be read by setting it
os.umask(_UMASK)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path`, whole, when the block ends without error."""
    make_folder(path.parent)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _mode_of(path))
        os.replace(name, path)
        sync_folder(path.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _mode_of(path: Path) -> int:
    """What the owner has allowed for a file, or what the process allows for a new one."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0o666 & ~_UMASK


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
    finally:
        os.close(descriptor)


def write_bytes(path: Path, content: bytes) -> None:
    with replacing(path) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def remove_temporary_files(folder: Path) -> None:
    """Delete what a killed process left behind under a temporary name."""
    for path in folder.rglob(".*.tmp"):
        path.unlink(missing_ok=True)


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Within the block, no other process can enter one for the same existing file.

    The system ends the claim with the process, however that stops. The file may be removed inside
    the block: whoever has opened it before is turned away as well.

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
        if not is_free:
            raise InputError(
                f"{path.parent} is being written by another process. Wait for it to end, or stop "
                "it first."
            )
        yield


def write_archive(path: Path, kind: str, version: int, arrays: Arrays, metadata: Any) -> str:
    """Write an archive and return its digest."""
    header: dict[str, Any] = {"format": kind, "version": version, "metadata": metadata}
    digest = header["digest"] = archive_digest(header, arrays)
    text = json.dumps(header, sort_keys=True, allow_nan=False)
    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    write_bytes(path, safetensors.numpy.save(plain, metadata={_KEY: text}))
    return digest


def read_archive(path: Path, kind: str, version: int) -> tuple[dict[str, np.ndarray], Any]:
    """Arrays and metadata of an archive.

    Raises:
        InputError: The file is missing, damaged, of another kind, or of another version.
    """
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {})[_KEY]
            header = json.loads(text)
            if json.dumps(header, sort_keys=True, allow_nan=False) != text:
                raise ValueError("the header is spelt in another way than remnant spells it")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        found, found_version = header["format"], header["version"]
        claimed = header.pop("digest")
    except FileNotFoundError:
        raise InputError(f"{path} does not exist. Check the path.") from None
    except (
        safetensors.SafetensorError,
        OSError,
        RecursionError,
        KeyError,
        TypeError,
        AttributeError,
        ValueError,
    ) as error:
        raise InputError(
            f"{path} is not a readable remnant file ({type(error).__name__}). It is damaged or was "
            "written by another program; restore it from a copy."
        ) from None
    if found != kind:
        raise InputError(f"{path} must be a remnant {kind} file; it is a {found} file.")
    if found_version != version:
        raise InputError(
            f"{path} has {kind} format version {found_version}; this remnant reads version "
            f"{version}. Use the remnant version that wrote it."
        )
    if archive_digest(header, arrays) != claimed:
        raise InputError(f"{path} is damaged: its checksum does not match. Restore it from a copy.")
    return arrays, header["metadata"]


def archive_digest(header: Mapping[str, Any], arrays: Arrays) -> str:
    """SHA-256 over the header and every array's name, type, shape and bytes, in name order."""
    digest = hashlib.sha256(json.dumps(dict(header), sort_keys=True, allow_nan=False).encode())
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")  # ascontiguousarray makes a scalar a row
        digest.update(f"\x1f{name}\x1f{array.dtype.str}\x1f{array.shape}\x1f".encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()
