"""The store: one file that holds what a learner knows, replaced whole or not at all.

A process that updates a store holds its work folder, `NAME.remnant.work`, which keeps checkpoints
until the update is done. The version is that of the format and changes with remnant's major number
alone. Newer minor versions read what older ones wrote; the reverse holds as long as no setting that
the older one does not know is in the file.
"""

from __future__ import annotations

import glob
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, ValidationError

from remnant._version import __version__
from remnant.archives import read_archive, write_archive
from remnant.errors import InputError
from remnant.files import make_folder, only_writer
from remnant.learner.defaults import LearnerSettings
from remnant.learner.inputs import Label
from remnant.learner.learner_state import Knowledge, revive
from remnant.settings import Settings, explain
from remnant.training.task_loop import standing_state

KIND, VERSION = "store", 1
_OF_THE_MACHINE = ("accelerator", "threads", "quiet")  # parameters that are never kept


class StoreHeader(Settings):
    """What a store says in words; weights and exemplars are arrays beside it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    remnant: str  # that wrote it
    parameters: dict[str, Any]
    settings: LearnerSettings
    classes: tuple[Label, ...]
    task_sizes: tuple[int, ...]
    history: tuple[dict[str, Any], ...]
    memory: Any  # what the memory says in words
    origin: str | None


def write_store(path: Path, knowledge: Knowledge) -> None:
    arrays, memory = standing_state(knowledge.method)
    parameters = {
        name: value for name, value in knowledge.parameters.items() if name not in _OF_THE_MACHINE
    }
    header = StoreHeader(
        remnant=__version__,
        parameters=parameters,
        settings=knowledge.settings,
        classes=knowledge.classes,
        task_sizes=knowledge.task_sizes,
        history=knowledge.history,
        memory=memory,
        origin=knowledge.origin,
    )
    write_archive(path, KIND, VERSION, arrays, header.model_dump(mode="json"))


def read_store(path: Path) -> Knowledge:
    """The inverse of `write_store`, for a file that anyone may have written.

    Raises:
        InputError: The file is missing, damaged, of a newer version, or impossible.
    """
    if path.is_dir():
        raise InputError(f"{path} must be a store, which is one file; it is a folder.")
    arrays, metadata = read_archive(path, KIND, VERSION)
    try:
        header = StoreHeader.model_validate(metadata)
    except (ValidationError, InputError) as error:
        reason = error if isinstance(error, InputError) else explain(error, StoreHeader, metadata)
        raise InputError(f"{path} cannot be used: {reason}{_other_version(metadata)}") from None
    if len(header.classes) != sum(header.task_sizes) or not header.task_sizes:
        raise InputError(f"{path} does not tell its classes. Restore it from a copy.")
    try:
        method = revive(header.settings, header.task_sizes, arrays, header.memory, str(path))
    except InputError as error:
        raise InputError(f"{error}{_other_version(metadata)}") from None
    return Knowledge(
        parameters=header.parameters,
        settings=header.settings,
        classes=header.classes,
        task_sizes=header.task_sizes,
        history=header.history,
        method=method,
        origin=header.origin,
    )


def _other_version(metadata: Any) -> str:
    writer = metadata.get("remnant") if isinstance(metadata, dict) else None
    if writer in (None, __version__):
        return ""
    return f" It was written by remnant {writer}; this is {__version__}."


# ---------------------------------------------------------------------------------------- updating


def work_folder(path: Path) -> Path:
    """Where the checkpoints of an update are kept until it is done."""
    return path.with_name(f"{path.name}.work")


@contextmanager
def only_updater(path: Path) -> Iterator[Path]:
    """The work folder of a store, for one process at a time; it is gone after success.

    After a failure it stays if there is a checkpoint to go on from.

    Raises:
        InputError: Another process is updating the store.
    """
    if path.is_dir():
        raise InputError(f"{path} must be a store, which is one file; it is a folder.")
    folder = work_folder(path)
    with ExitStack() as stack:
        try:
            _make_lock(folder)
            stack.enter_context(only_writer(folder / "lock"))
        except (InputError, FileNotFoundError):  # a lock that was just taken away is another's
            raise InputError(
                f"{path} is being updated by another process. Wait for it to end, or stop it first."
            ) from None
        for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
            # Of a process that was killed while it wrote or cleaned up.
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)
        try:
            yield folder
        except BaseException:
            if not any(folder.glob("*.safetensors")):
                _remove(folder)
            raise
        _remove(folder)


def _remove(folder: Path) -> None:
    """At once, as others see it: what is left of half a removal would look like another update."""
    gone = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.tmp")
    os.replace(folder, gone)
    shutil.rmtree(gone, ignore_errors=True)


def _make_lock(folder: Path) -> None:
    try:
        make_folder(folder)
        (folder / "lock").touch()
    except OSError:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()  # no space left, say: nothing else was done
        raise
