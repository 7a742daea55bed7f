"""B: the n-th operation on files fails, with one error or another.

Nothing but a sentence or the system's own error comes out, the store is the old one or the new one,
it is never said to be unchanged when it is the new one, and the same command works afterwards.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from remnant.errors import InputError
from remnant.learner import Learner
from remnant.learner.work_folder import UnsyncedStoreError
from tests.attacks.crash_states import COMMANDS, make_store
from tests.attacks.tally import Tally

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EDQUOT, errno.EROFS)
_CALLS = (
    *((os, name) for name in ("fsync", "replace", "link", "unlink", "mkdir", "chmod", "rmdir")),
    (tempfile, "mkstemp"),
)


class FailingCalls:
    """Counts operations on files, and lets one of them fail."""

    def __init__(self, failing: int | None = None, number: int = errno.EIO) -> None:
        self.count = 0
        self._failing = failing
        self._number = number

    @contextmanager
    def counting(self) -> Iterator[None]:
        with ExitStack() as stack:
            for module, name in _CALLS:
                wrapped = self._wrap(getattr(module, name))
                stack.enter_context(mock.patch.object(module, name, wrapped))
            yield

    def _wrap(self, real: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            if self.count - 1 == self._failing:
                raise OSError(self._number, os.strerror(self._number))
            return real(*arguments, **options)

        return call


def fail_once(name: str, store: Path, folder: Path, failing: int, number: int) -> str | None:
    """What is wrong after one failure, if anything."""
    shutil.copytree(store.parent, folder)
    copy = folder / store.name
    before, told = Learner.load(copy).digest(), ""
    try:
        with FailingCalls(failing, number).counting():
            COMMANDS[name](copy)
        outcome = "done"
    except UnsyncedStoreError:
        outcome = "new"
    except (OSError, InputError) as error:
        outcome, told = "old", str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    after = Learner.load(copy).digest()
    is_changed = after != before
    if is_changed != (outcome != "old"):
        return f"it ended as {outcome} ({told}), and the store is {'new' if is_changed else 'old'}"
    try:
        if outcome == "old":
            COMMANDS[name](copy)
        Learner.load(copy).save(copy)  # nothing is in the way of another update
    except (OSError, InputError) as error:
        return f"afterwards: {error}"
    left = {path.name for path in folder.iterdir()} - {copy.name, f"{copy.name}.before"}
    return f"left behind: {sorted(left)}" if left else None


def count_operations(name: str, store: Path, folder: Path) -> int:
    shutil.copytree(store.parent, folder)
    calls = FailingCalls()
    with calls.counting():
        COMMANDS[name](folder / store.name)
    return calls.count


def attack(folder: Path, seed: int, count: int) -> Tally:
    (folder / "made").mkdir(parents=True)
    store, tally, chance = make_store(folder / "made"), Tally(), random.Random(seed)
    tries = [
        (name, failing, number)
        for name in COMMANDS
        for failing in range(count_operations(name, store, folder / f"counted-{name}"))
        for number in ERRORS
    ]
    for name, failing, number in chance.sample(tries, min(count, len(tries))):
        place = folder / "tried"
        problem = fail_once(name, store, place, failing, number)
        what = f"{name}, operation {failing}, {errno.errorcode[number]}"
        tally.add(None if problem is None else f"{what}: {problem}")
        shutil.rmtree(place)
    return tally
