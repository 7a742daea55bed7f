"""Operations on files as they are done, and the states in which a power cut can leave a disk.

The model: a folder is a table of names, a file is an inode with bytes. Bytes are certain once the
file is synced; until then a crash leaves none, some or all of them. A name that is made, moved or
removed is certain once its folder is synced; until then any part of such changes may be lost,
whatever their order. A sector that was being written may hold anything. That is weaker than what
journaling file systems promise.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

Inode = int
Names = dict[Path, Inode]

_MOST_LOST = 5  # changes of names that are combined in every way; of more, some ways are drawn
_SECTOR = 512  # bytes
_MOST_REPEATS = 30  # in a row, of states tried at this moment; then there are hardly others


@dataclass(frozen=True)
class Change:
    """One operation: what it does to the names, and the folders that make it certain."""

    kind: str  # "name", "bytes", "sync file", "sync folder"
    folders: tuple[Path, ...] = ()
    inode: Inode = -1
    content: bytes = b""
    apply: Callable[[Names], None] = lambda names: None


@dataclass
class RecordedDisk:
    """Everything below a folder: its state at the start, and the changes since."""

    root: Path
    names: Names = field(default_factory=dict)
    contents: dict[Inode, bytes] = field(default_factory=dict)  # certain ones
    changes: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._live: Names = {}  # now; numbers of our own, since systems use theirs again
        self._numbers = itertools.count()
        for path in self.root.rglob("*"):
            if path.is_file():
                self.contents[self._number(path)] = path.read_bytes()
        self.names = dict(self._live)

    @contextmanager
    def recording(self, *, without: str = "") -> Iterator[None]:
        """Within this context changes are recorded; `without` leaves out a kind of sync."""
        real = {name: getattr(os, name) for name in ("fsync", "replace", "link", "unlink")}
        real["rmtree"] = shutil.rmtree
        real["mkstemp"] = tempfile.mkstemp
        self._without = without

        def wrap(name: str) -> Callable[..., Any]:
            note = getattr(self, f"_{name}")

            def call(*arguments: Any, **options: Any) -> Any:
                return note(real[name], *arguments, **options)

            return call

        with (
            mock.patch.object(os, "fsync", wrap("fsync")),
            mock.patch.object(os, "replace", wrap("replace")),
            mock.patch.object(os, "link", wrap("link")),
            mock.patch.object(os, "unlink", wrap("unlink")),
            mock.patch.object(shutil, "rmtree", wrap("rmtree")),
            mock.patch.object(tempfile, "mkstemp", wrap("mkstemp")),
        ):
            yield

    # ------------------------------------------------------------------------------ what is noted

    def _mkstemp(self, real: Any, *arguments: Any, **options: Any) -> Any:
        handle, name = real(*arguments, **options)
        path = Path(name)
        inode = self._number(path)
        self._name(lambda names: names.update({path: inode}), path)
        return handle, name

    def _fsync(self, real: Any, descriptor: int) -> None:
        real(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            if self._without != "folders":
                self.changes.append(Change("sync folder", (path,)))
        elif self._without != "files":
            self._bytes(path)
            self.changes.append(Change("sync file", inode=self._number(path)))

    def _replace(self, real: Any, old: Any, new: Any) -> None:
        old, new = Path(old), Path(new)
        if old.is_file():
            self._bytes(old)
        real(old, new)
        self._name(lambda names: _move(names, old, new), old, new)

    def _link(self, real: Any, old: Any, new: Any) -> None:
        real(old, new)
        old, new = Path(old), Path(new)
        self._name(lambda names: names.update({new: names[old]} if old in names else {}), new)

    def _unlink(self, real: Any, path: Any, **options: Any) -> None:
        real(path, **options)
        if "dir_fd" not in options:
            gone = Path(path)
            self._name(lambda names: names.pop(gone, None) and None, gone)

    def _rmtree(self, real: Any, path: Any, **options: Any) -> None:
        real(path, **options)
        self._name(lambda names: _drop(names, Path(path)), Path(path))

    def _bytes(self, path: Path) -> None:
        if path not in self._live:  # opened without our knowing, at the latest now
            inode = self._number(path)
            self._name(lambda names: names.update({path: inode}), path)
        self.changes.append(Change("bytes", inode=self._number(path), content=path.read_bytes()))

    def _name(self, apply: Callable[[Names], None], *paths: Path) -> None:
        folders = tuple(path.parent for path in paths)
        apply(self._live)
        self.changes.append(Change("name", folders, apply=apply))

    def _number(self, path: Path) -> Inode:
        if path not in self._live:
            self._live[path] = next(self._numbers)
        return self._live[path]

    # ------------------------------------------------------------------------- what a crash leaves

    def states(self, chance: random.Random, most: int) -> Iterator[tuple[int, dict[Path, bytes]]]:
        """For every moment, up to `most` different states of the files after a crash.

        They differ in which changes of names are lost, and in where unsynced files are torn.
        """
        for moment in range(len(self.changes) + 1):
            done = self.changes[:moment]
            doubtful = [index for index, one in enumerate(done) if self._is_doubtful(index, moment)]
            ways = list(_subsets(doubtful, chance))
            seen: set[frozenset[tuple[Path, bytes]]] = set()
            num_repeats = 0
            for lost in itertools.chain(chance.sample(ways, len(ways)), _endless(ways, chance)):
                state = self._state(done, set(lost), chance)
                if (contents := frozenset(state.items())) in seen:
                    num_repeats += 1
                else:
                    seen.add(contents)
                    num_repeats = 0
                    yield moment, state
                if len(seen) == most or num_repeats > _MOST_REPEATS:
                    break

    def _is_doubtful(self, index: int, moment: int) -> bool:
        """Whether a change of names is not yet made certain by syncs of all its folders."""
        change = self.changes[index]
        if change.kind != "name":
            return False
        synced = {
            folder
            for later in self.changes[index:moment]
            if later.kind == "sync folder"
            for folder in later.folders
        }
        return not set(change.folders) <= synced

    def _state(
        self, done: list[Change], lost: set[int], chance: random.Random
    ) -> dict[Path, bytes]:
        names, contents = dict(self.names), dict(self.contents)
        written: dict[Inode, bytes] = {}
        for index, change in enumerate(done):
            if change.kind == "name" and index not in lost:
                change.apply(names)
            elif change.kind == "bytes":
                written[change.inode] = change.content
            elif change.kind == "sync file":
                contents[change.inode] = written.pop(change.inode)
        for inode, content in written.items():
            certain = contents.get(inode, b"")
            if content != certain:
                ends = [0, len(content) // 2, len(content) - 1, len(content)]
                kept = chance.choice(ends) if chance.random() < 0.2 else chance.randint(0, ends[-1])
                least = len(certain) if content.startswith(certain) else 0  # more was appended
                contents[inode] = _spoiled(content[: max(least, kept)], least, chance)
        return {path: contents.get(inode, b"") for path, inode in names.items()}


def _endless(ways: list[tuple[int, ...]], chance: random.Random) -> Iterator[tuple[int, ...]]:
    while True:
        yield chance.choice(ways)


def _subsets(items: list[int], chance: random.Random) -> Iterator[tuple[int, ...]]:
    if len(items) <= _MOST_LOST:
        for count in range(len(items) + 1):
            yield from itertools.combinations(items, count)
        return
    yield ()
    yield tuple(items)
    for _ in range(2**_MOST_LOST):
        yield tuple(item for item in items if chance.random() < 0.5)


def _move(names: Names, old: Path, new: Path) -> None:
    if old in names:
        names[new] = names.pop(old)
    for path in [path for path in names if path.is_relative_to(old)]:  # a folder
        names[new / path.relative_to(old)] = names.pop(path)


def _drop(names: Names, folder: Path) -> None:
    for path in [path for path in names if path.is_relative_to(folder)]:
        del names[path]


def _spoiled(content: bytes, certain: int, chance: random.Random) -> bytes:
    """Sometimes with zeros or nonsense in one sector of what is not certain."""
    if len(content) <= certain or chance.random() > 0.3:
        return content
    begin = max(certain, chance.randrange(certain, len(content)) // _SECTOR * _SECTOR)
    end = min(len(content), begin + _SECTOR)
    other = bytes(end - begin) if chance.random() < 0.5 else chance.randbytes(end - begin)
    return content[:begin] + other + content[end:]
