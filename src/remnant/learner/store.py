"""The store: one file with all that a learner knows, replaced as a whole or not at all.

The version is that of the format and changes only with remnant's major number. Newer minor versions
read what older ones wrote; the reverse holds as long as the file has no setting that the older one
does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from remnant._version import __version__
from remnant.archives import Arrays, read_archive, write_archive
from remnant.errors import InputError
from remnant.files import UnsyncedError, put_in_place
from remnant.learner.inputs import Label
from remnant.learner.learner_state import (
    LearnerConfig,
    LearnerParameters,
    LearnerState,
    forget_class,
    restore,
)
from remnant.learner.measuring import GuardError, UncheckedGuardError
from remnant.learner.previous_store import (
    dropping_previous,
    find_previous,
    keep_previous,
    which_file,
)
from remnant.learner.receipts import Receipt, check_receipt_path, make_receipt, write_receipt
from remnant.learner.score_calibration import Calibration
from remnant.learner.store_checks import (
    check_classes,
    check_history,
    check_network,
    telling_full_memory,
)
from remnant.learner.update import run_update
from remnant.learner.work_folder import (
    UnsyncedStoreError,
    check_file,
    has_checkpoint,
    only_updater,
)
from remnant.methods import Method
from remnant.phases import Watcher
from remnant.settings import Settings
from remnant.training.checkpoints import MEMORY_PAYLOAD, Checkpoints
from remnant.training.task_loop import standing_state

KIND, VERSION = "store", 1
# Are not stored: they belong to one machine or to one call.
_MACHINE_PARAMETERS = {"accelerator", "threads", "minutes", "guard", "strict", "quiet"}


class StoreHeader(Settings):
    """The metadata of a store; weights and exemplars are arrays beside it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    remnant: str  # the version that wrote it
    parameters: dict[str, Any]
    settings: LearnerConfig
    classes: tuple[Label, ...]
    task_sizes: tuple[Annotated[int, Field(ge=0)], ...]
    history: tuple[dict[str, Any], ...]
    memory: Any  # the metadata of the memory
    origin: str | None
    calibration: Calibration | None = None
    untrained: tuple[str, ...] = ()


def write_store(path: Path, state: LearnerState) -> None:
    arrays, memory = standing_state(state.method)
    header = StoreHeader(
        remnant=__version__,
        parameters=state.parameters.model_dump(exclude=_MACHINE_PARAMETERS),
        settings=state.config,
        classes=state.classes,
        task_sizes=state.task_sizes,
        history=state.history,
        memory=memory,
        origin=state.origin,
        calibration=state.calibration,
        untrained=state.untrained,
    )
    with _placing(path):
        write_archive(path, KIND, VERSION, arrays, header.model_dump(mode="json"))


@contextmanager
def _placing(path: Path) -> Iterator[None]:
    """Tell a store from other files, such as checkpoints, after which the old store is there."""
    try:
        yield
    except UnsyncedError as error:
        raise UnsyncedStoreError(error, path) from None


def read_store(path: Path) -> LearnerState:
    """The inverse of `write_store`; the file may come from anywhere.

    Raises:
        InputError: The file is missing, damaged, of a newer version, or inconsistent.
    """
    check_file(path)
    arrays, metadata = read_archive(path, KIND, VERSION, MEMORY_PAYLOAD)
    try:
        header = StoreHeader.parse(metadata)
        parameters = LearnerParameters.parse(
            {
                name: value
                for name, value in header.parameters.items()
                if name in LearnerParameters.model_fields  # a later version may have more
            }
        )
    except InputError as error:
        raise InputError(f"{path} cannot be used: {error}{_other_version(metadata)}") from None
    try:
        method = _revive(header, arrays, str(path))
    except InputError as error:
        raise InputError(f"{error}{_other_version(metadata)}") from None
    return LearnerState(
        parameters=parameters,
        config=header.settings,
        classes=header.classes,
        task_sizes=header.task_sizes,
        history=header.history,
        method=method,
        origin=header.origin,
        calibration=header.calibration,
        untrained=header.untrained,
    )


def _revive(header: StoreHeader, arrays: Arrays, source: str) -> Method[Any]:
    """The method of a store; whatever the file says is checked before it is used."""
    check_classes(header.classes, header.task_sizes, source)
    check_history(header.history, source)
    check_network(header.settings, header.task_sizes, arrays, source)
    with telling_full_memory(source):
        method = restore(header.settings, header.task_sizes, (dict(arrays), header.memory), source)
    if method.memory is not None:
        method.memory.require_classes([str(name) for name in header.classes], source)
        assert header.settings.memory is not None, "what has a memory has settings for it"
        method.memory.require_budget(header.settings.memory.budget, source)
    return method


def _other_version(metadata: Any) -> str:
    writer = metadata.get("remnant") if isinstance(metadata, dict) else None
    if writer in (None, __version__):
        return ""
    return f" It was written by remnant {writer}; this is {__version__}."


# ---------------------------------------------------------------------------------------- updating


def learn_into_store(
    path: str | Path,
    images: Any,
    labels: Any = None,
    *,
    test: Any = None,
    watchers: tuple[Watcher, ...] = (),
    before_writing: Callable[[], None] | None = None,
    **parameters: Any,
) -> LearnerState:
    """Teach the store at `path`, which is created if it does not exist.

    Checkpoints are kept in `NAME.remnant.work/` beside the store: after an interruption of any
    kind the same call continues from the last one. The store is replaced at the very end.

    Args:
        path: `NAME.remnant`.
        images: As for `Learner.partial_fit`.
        labels: As for `Learner.partial_fit`.
        test: As for `Learner.partial_fit`.
        watchers: As for `Learner.partial_fit`.
        before_writing: Called after training; an exception leaves the store unchanged.
        parameters: Of `Learner`; the others are those of the store, or the defaults for a new one.

    Returns:
        What the store holds now; `Learner.load` gives a learner for it.

    Raises:
        InputError: The input cannot be used, the store is damaged or of another version, or
            another process is updating it. The store is unchanged.
    """
    store = Path(path).resolve()
    with only_updater(store) as folder:
        before = read_store(store) if store.exists() else None
        stored = before.parameters.model_dump() if before else {}
        if parameters.get("options"):  # options that are not given are those of the store
            parameters["options"] = {**(stored.get("options") or {}), **parameters["options"]}
        given = LearnerParameters.of(stored | parameters)
        try:
            state = run_update(before, given, images, labels, test, folder, watchers)
        except UncheckedGuardError:  # another update may have been stopped, and can be continued
            raise
        except GuardError:  # it is done and refused, so there is nothing to continue
            for point in Checkpoints(folder).points():
                (folder / point.file_name).unlink(missing_ok=True)
            raise
        if before_writing is not None:
            before_writing()
        if before is not None and before.origin != state.origin:
            keep_previous(store)
        write_store(store, state)
    return state


def undo_in_store(path: str | Path) -> LearnerState:
    """Undo the last update of a store, once; returns what it holds then.

    Raises:
        InputError: There is nothing to undo, or another process is updating the store.
    """
    store = Path(path).resolve()
    with only_updater(store):
        previous = find_previous(store)
        state = read_store(previous)  # a damaged one must not take the place of a good one
        with _placing(store):
            put_in_place(previous, store)
    return state


def forget_in_store(path: str | Path, name: Label) -> str:
    """Remove a class from a store; neither the file nor its work folder contains it afterwards.

    Returns:
        A message that says what cannot be undone.

    Raises:
        InputError: As for `Learner.forget`, or the store cannot be read or is being updated.
    """
    return forget_with_receipt(path, name)[0]


def forget_with_receipt(
    path: str | Path, name: Label, target: Path | None = None
) -> tuple[str, Receipt]:
    """As `forget_in_store`, with what was removed.

    Args:
        target: The file to write the receipt to, a new one. It is written before the store is
            replaced, so that no class is forgotten without one, and removed if that fails.
    """
    if target is not None:
        check_receipt_path(target)
    store = Path(path).resolve()
    with only_updater(store):
        old_file = which_file(store)
        before, is_stopped = read_store(store), has_checkpoint(store)
        after, message = forget_class(before, name)
        receipt = make_receipt(store, before, after, name)
        if target is not None:
            write_receipt(target, receipt)
        try:
            with dropping_previous(store):
                write_store(store, after)
        except BaseException:  # some come after the class is forgotten
            if target is not None and which_file(store) == old_file:
                target.unlink(missing_ok=True)
            raise
    if is_stopped:
        message += " The checkpoints of an update that was stopped are removed too."
    return message, receipt
