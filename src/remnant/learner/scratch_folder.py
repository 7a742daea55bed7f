"""A temporary folder for the checkpoints of a learner without a file."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from remnant.files import only_writer

_PREFIX, _LOCK = "remnant-", "lock"
_OLD = 3600.0  # seconds; a younger folder may not be locked yet


class ScratchFolder:
    """Locked until it is removed; making one removes those that killed processes have left."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        (self.path / _LOCK).touch()
        self._stack = ExitStack()
        self._stack.enter_context(only_writer(self.path / _LOCK))
        for other in self.path.parent.glob(f"{_PREFIX}*"):
            _remove_if_left(other)

    def remove(self) -> None:
        """Its content first, so that nobody finds it unlocked."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._stack.close()


def _remove_if_left(folder: Path) -> None:
    """Where it is ours, old, and no process holds its lock."""
    import fcntl  # not `only_writer`, which lets everybody in where there are no locks

    try:
        with (folder / _LOCK).open("rb") as lock:
            status = os.fstat(lock.fileno())
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > _OLD:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return
