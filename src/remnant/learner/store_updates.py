"""Updates of stores on disk: by one process at a time, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from remnant.learner.inputs import Label
from remnant.learner.learner import Learner
from remnant.learner.store import only_updater, write_store
from remnant.learner.updates import update
from remnant.phases import Watcher


def learn_into_store(
    path: str | Path,
    images: Any,
    labels: Any = None,
    *,
    test: Any = None,
    watchers: tuple[Watcher, ...] = (),
    before_writing: Callable[[], None] | None = None,
    **parameters: Any,
) -> Learner:
    """Teach the store at `path`, which is made when missing, and return it as a Learner.

    Checkpoints are kept in `NAME.remnant.work/` beside the store: after a stop of any kind the
    same call goes on from the last one. The store is replaced at the very end.

    Args:
        path: `NAME.remnant`.
        images: As for `Learner.partial_fit`.
        labels: As for `Learner.partial_fit`.
        test: As for `Learner.partial_fit`.
        watchers: As for `Learner.partial_fit`.
        before_writing: Called when all is learned; what it raises leaves the store as it was.
        parameters: Of `Learner`; those left out are the store's, or the defaults for a new one.

    Raises:
        InputError: Something given cannot be used, the store is damaged or of another version, or
            another process is updating it. The store is as it was.
    """
    store = Path(path).resolve()
    with only_updater(store) as work:
        learner = Learner.load(store) if store.exists() else Learner()
        if parameters.get("options"):  # likewise one by one: those left out are the store's
            parameters["options"] = {**(learner.options or {}), **parameters["options"]}
        learner.set_params(**parameters)
        now = learner.get_params(deep=False)
        knowledge = update(learner._knowledge, now, images, labels, test, work, watchers)
        if before_writing is not None:
            before_writing()
        write_store(store, knowledge)
    learner._take(knowledge)
    return learner


def forget_in_store(path: str | Path, name: Label) -> str:
    """`Learner.forget` on a store; neither the file nor its work folder holds the class afterwards.

    Returns:
        What `Learner.forget` returns.

    Raises:
        InputError: As for `Learner.forget`, or the store cannot be read, or is being updated.
    """
    store = Path(path).resolve()
    with only_updater(store):
        learner = Learner.load(store)
        told = learner.forget(name)
        write_store(store, learner._known())
    return told
