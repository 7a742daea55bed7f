"""Who changed the store through the server, when, and from which content to which."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from remnant.errors import InputError

log = logging.getLogger(__name__)


class AuditLog:
    """A file of JSON lines, one for each attempt to change the store; None: nothing is written.

    Args:
        kept: Files that it must not be.

    Raises:
        InputError: The file cannot be written, or is one of those.
    """

    def __init__(self, path: Path | None, kept: Sequence[Path] = ()) -> None:
        self._path = path
        self._lock = threading.Lock()
        if path is not None:
            if path.resolve() in kept:
                raise InputError(
                    f"--audit must be a file of its own; {path} is the store or its copy for undo. "
                    "Choose another --audit."
                )
            try:
                path.open("ab").close()
            except OSError as error:
                raise InputError(
                    f"{path} must be a file to append to ({error.strerror}). Choose another "
                    "--audit."
                ) from None

    @contextmanager
    def noting(
        self, client: str, action: str, digest: Callable[[], str], **facts: Any
    ) -> Iterator[None]:
        """The block is an attempt; how it ends is noted, and raised as before.

        Args:
            client: The address that asked for it.
            digest: Of the store as it is; called before and after.
            facts: What else to note.
        """
        if self._path is None:
            yield
            return
        before = digest()
        line = {"client": client, "action": action, **facts, "digest_before": before}
        try:
            yield
        except BaseException as error:
            line |= {"outcome": "failed", "error": str(error) or type(error).__name__}
            after = digest()  # a new store may be in place that the disk could not confirm
            self._write(line if after == before else {**line, "digest_after": after})
            raise
        self._write({**line, "outcome": "done", "digest_after": digest()})

    def _write(self, line: dict[str, Any]) -> None:
        assert self._path is not None, "only called if there is a file"
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        try:
            with self._lock, self._path.open("ab") as file:
                file.write(json.dumps({"when": when, **line}).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:  # the store is changed all the same
            log.error("%s could not be written (%s): %s", self._path, error.strerror, line)
