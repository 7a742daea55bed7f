"""A published archive: where it is, which files are taken out of it, and how that is done safely.

An archive is never extracted as such. Its entries are read one after another, those that are
expected by name are copied with their bytes counted, and anything that tries to leave its place
makes the whole archive unusable.
"""

from __future__ import annotations

import errno
import gzip
import io
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from remnant import files
from remnant.errors import InputError

_CHUNK_BYTES = 1 << 20
_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    # zipfile, of nonsense in its tables: an unknown compression, places that do not exist.
    NotImplementedError,
    IndexError,
    OverflowError,
    ValueError,
    struct.error,
)


@dataclass(frozen=True)
class Member:
    """Files to take out of an archive."""

    pattern: str  # a regular expression for the whole path below the archive's folder
    count: int  # how many there must be; 0: taken where present
    most_bytes: int  # of each file
    least_bytes: int = 1


@dataclass(frozen=True)
class ArchiveSpec:
    """A download and what it must contain."""

    url: str
    md5: str
    download_bytes: int
    folder: str  # of the archive, and of the data set under the data root
    members: tuple[Member, ...]
    unpacked_bytes: int = 1 << 30  # no honest archive of this kind holds more

    @property
    def file_name(self) -> str:
        return self.url.rsplit("/", 1)[-1]

    def matching(self, name: str) -> Member | None:
        """The member that an archive's entry `name` belongs to."""
        if not name.startswith(f"{self.folder}/"):
            return None
        inner = name.removeprefix(f"{self.folder}/")
        return next(
            (member for member in self.members if re.fullmatch(member.pattern, inner)), None
        )

    def is_complete(self, root: Path) -> bool:
        """Every file is under `root`, with a possible size; contents are not read."""
        found = (path for path in (root / self.folder).rglob("*") if path.is_file())
        counts: Counter[Member] = Counter()
        for path in found:
            member = self.matching(path.relative_to(root).as_posix())
            if member and member.least_bytes <= path.stat().st_size <= member.most_bytes:
                counts[member] += 1
        return not self.lacking(counts)

    def lacking(self, counts: Counter[Member]) -> list[Member]:
        return [member for member in self.members if counts[member] < member.count]


def unpack(archive: ArchiveSpec, path: Path, destination: Path) -> None:
    """Copy the expected members of the archive file at `path` below `destination`.

    Nothing is synced: there may be a hundred thousand files, and the caller syncs once for all.

    Raises:
        InputError: The archive is damaged, incomplete or hostile; what was copied is for the
            caller to remove.
    """
    counts: Counter[Member] = Counter()
    names: set[str] = set()
    try:
        for name, content in _entries(archive, path):
            member = archive.matching(name)
            if member is None:
                continue
            if name in names:
                raise InputError(f"{path.name} holds {name} twice, so it cannot be trusted.")
            names.add(name)
            _copy(content, member, name, destination / name)
            counts[member] += 1
    except InputError:
        raise
    except (*_BROKEN, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # of the disk; zipfile asks for a place before the beginning
        raise InputError(f"{path.name} is not a readable archive ({error}).") from None
    for member in archive.lacking(counts):
        raise InputError(
            f"{path.name} must hold {member.count:,} files {archive.folder}/{member.pattern}; it "
            f"holds {counts[member]:,}."
        )


def _copy(content: IO[bytes], member: Member, name: str, target: Path) -> None:
    num_bytes = 0
    with files.staged(target) as file:
        while chunk := content.read(_CHUNK_BYTES):
            num_bytes += len(chunk)
            if num_bytes > member.most_bytes:
                raise InputError(f"{name} in the archive exceeds {member.most_bytes:,} bytes.")
            file.write(chunk)
        if num_bytes < member.least_bytes:
            raise InputError(
                f"{name} in the archive must have {member.least_bytes:,} bytes or more; it has "
                f"{num_bytes:,}."
            )


def _entries(archive: ArchiveSpec, path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of every regular file, in order; each must be read before the next."""
    with path.open("rb") as file:
        is_zip = file.read(2) == b"PK"
    if is_zip:
        yield from _zip_entries(path)
        return
    with gzip.open(path) as unzipped:
        limited = _LimitedReader(unzipped, archive.unpacked_bytes)
        with tarfile.open(fileobj=limited, mode="r|") as tar:  # a stream: never seeks back
            for entry in tar:
                _refuse_unsafe(entry.name, is_plain=entry.isreg() or entry.isdir())
                content = tar.extractfile(entry) if entry.isreg() else None
                if content is not None:
                    yield entry.name, content


def _zip_entries(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            kind = stat.S_IFMT(entry.external_attr >> 16)
            _refuse_unsafe(entry.filename, is_plain=kind in (0, stat.S_IFREG, stat.S_IFDIR))
            if entry.flag_bits & 1:
                raise InputError(f"{entry.filename} in {path.name} is encrypted.")
            if not entry.is_dir():
                with archive.open(entry) as content:
                    yield entry.filename, content


def _refuse_unsafe(name: str, *, is_plain: bool) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name:
        raise InputError(f"the archive has an entry outside its folder ({name!r}); it is hostile.")
    if not is_plain:
        raise InputError(f"the archive has a link or device ({name!r}); it is hostile.")


class _LimitedReader(io.BufferedIOBase):
    """The read side of a file that refuses to give more than `most_bytes`."""

    def __init__(self, file: io.BufferedIOBase, most_bytes: int) -> None:
        self._file = file
        self._left = most_bytes
        self._most = most_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        limit = self._left + 1
        content = self._file.read(limit if size is None or size < 0 else min(size, limit))
        self._left -= len(content)
        if self._left < 0:
            raise InputError(f"the archive unpacks to more than {self._most:,} bytes.")
        return content
