"""Getting a data set: download, verify, take out the expected files, put them in place whole.

Everything happens in a folder with a temporary name beside the target, which is removed however the
attempt ends; nothing is used before its checksum is verified.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from remnant import files
from remnant.data.archive_members import ArchiveSpec, unpack
from remnant.data.spec import DATASETS, ProgressCallback, data_root
from remnant.errors import InputError

_CHUNK_BYTES = 1 << 18
_TIMEOUT_SECONDS = 30
_STALE_SECONDS = 86_400  # a temporary folder this old belongs to no running download


def get_dataset(
    name: str, root: str | None = None, *, progress: ProgressCallback | None = None
) -> Path:
    """Make sure that a data set is under the data root, and return its folder.

    Raises:
        InputError: The download failed or is not the published archive, or there is no download.
    """
    spec, folder = DATASETS.find(name, "the data set"), data_root(root)
    if spec.archive is not None:
        return install_archive(name, spec.archive, folder, progress=progress)
    if spec.how_to_get:
        raise InputError(spec.how_to_get.format(root=folder))
    return folder


def install_archive(
    name: str, archive: ArchiveSpec, root: Path, *, progress: ProgressCallback | None = None
) -> Path:
    """Put an archive's files under `root` unless they are there, and return their folder.

    An archive of the published name that is already in `root` is used in place of a download.
    """
    target = root / archive.folder
    if archive.is_complete(root):
        return target
    try:
        root.mkdir(parents=True, exist_ok=True)
        _remove_stale(name, root)
        with tempfile.TemporaryDirectory(".partial", f".{name}.", root) as staging:
            _fetch(name, archive, root, Path(staging), progress)
            files.sync_all()  # before anything is put in place
            _move(Path(staging) / archive.folder, target)
    except OSError as error:
        raise InputError(
            f"{name} cannot be written under {root} ({error.strerror or error}). Free some space "
            "or choose another --data-root."
        ) from None
    return target


def _fetch(
    name: str, archive: ArchiveSpec, root: Path, staging: Path, progress: ProgressCallback | None
) -> None:
    """Verified members of the archive, below `staging`."""
    by_hand = root / archive.file_name
    path = by_hand if by_hand.is_file() else staging / archive.file_name
    advice = (
        f"Try again, or fetch {archive.url} (MD5 {archive.md5}) by other means, put it at "
        f"{by_hand} and run `remnant data get {name}`."
    )
    try:
        if path != by_hand:
            _download(archive, path, progress)
        _verify(archive, path)
        unpack(archive, path, staging)
    except InputError as error:
        raise InputError(f"{name} was not installed: {error} {advice}") from None


def _download(archive: ArchiveSpec, path: Path, progress: ProgressCallback | None) -> None:
    done = 0
    with files.replacing(path) as file:
        for chunk, total in _receive(archive.url):
            file.write(chunk)
            done += len(chunk)
            if done > 2 * archive.download_bytes:
                raise InputError(
                    f"the server sent more than twice the {archive.download_bytes:,} bytes of the "
                    "archive."
                )
            if progress is not None:
                progress(done, total)


def _receive(url: str) -> Iterator[tuple[bytes, int | None]]:
    """Chunks of what the server sends, each with the announced length."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
            total, done = response.length, 0  # None: the server does not say
            while chunk := response.read(_CHUNK_BYTES):
                done += len(chunk)
                yield chunk, total
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise InputError(f"the download from {url} failed ({error}).") from None
    if total is not None and done != total:
        raise InputError(f"the download ended after {done:,} of {total:,} bytes.")


def _verify(archive: ArchiveSpec, path: Path) -> None:
    with path.open("rb") as file:
        md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if md5 != archive.md5:
        raise InputError(f"{path.name} must have MD5 {archive.md5}; it has {md5}.")


def _move(source: Path, target: Path) -> None:
    """Put a finished folder in place; where one exists, only the files that both have change."""
    try:
        os.rename(source, target)
    except OSError:
        if not target.is_dir():
            raise
        for path in sorted(path for path in source.rglob("*") if path.is_file()):
            place = target / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, place)
    files.sync_folder(target.parent)


def _remove_stale(name: str, folder: Path) -> None:
    for path in folder.glob(f".{name}.*.partial"):
        if time.time() - path.stat().st_mtime > _STALE_SECONDS:
            shutil.rmtree(path, ignore_errors=True)
