"""What can be done to a store beside teaching it: other budgets, other networks, comparisons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from remnant.errors import InputError
from remnant.learner.encoder_choice import SCRATCH, takes_encoder
from remnant.learner.held_exemplars import still_stored
from remnant.learner.inputs import Label
from remnant.learner.learner_state import LearnerParameters, LearnerState
from remnant.learner.previous_store import keep_previous
from remnant.learner.store import read_store, write_store
from remnant.learner.update import run_update
from remnant.learner.work_folder import only_updater
from remnant.memory import Memory

# What a rebuilt store takes over whatever its method, unless other values are given.
_KEPT_BY_REBUILD = ("augment", "seed", "accelerator", "threads", "quiet")
_OPTIONS_KEPT_BY_REBUILD = ("augment.", "training.")


# ----------------------------------------------------------------------------------------- changes


def rebudget_store(path: str | Path, budget: str) -> LearnerState:
    """Give a store another budget; what does not fit goes, worst first.

    Exemplars that an earlier budget dropped do not come back.

    Raises:
        InputError: It has no memory, or the budget cannot hold one exemplar of each class.
    """

    def change(state: LearnerState) -> LearnerState:
        _memory_of(state).change_budget(budget)
        assert state.config.memory is not None, "a method with a memory has settings for it"
        memory = state.config.memory.model_copy(update={"budget": budget})
        return replace(
            state,
            config=state.config.model_copy(update={"memory": memory}),
            parameters=state.parameters.model_copy(update={"budget": budget}),
        )

    return _changed(path, change)


def thin_store(
    path: str | Path, name: Label, *, keep: int | None = None, remove: int | None = None
) -> LearnerState:
    """Keep the best exemplars of a class, or remove one by its number, from 1, as pages show it.

    Raises:
        InputError: There is no such class or exemplar, or not exactly one thing is asked for.
    """
    if (keep is None) == (remove is None):
        raise InputError(
            "give either --keep N, how many exemplars stay, or --remove N, the number of one."
        )

    def change(state: LearnerState) -> LearnerState:
        label, memory = state.find(name), _memory_of(state)
        if keep is not None:
            memory.thin_class(label, keep)
        elif remove is not None:
            count = len(memory.exemplar_bytes(label)) if label in memory.labels else 0
            if count == 0:
                raise InputError(f"class {name!r} has no exemplars left to remove.")
            if not 1 <= remove <= count:
                raise InputError(
                    f"class {name!r} has exemplars 1 to {count}; got {remove}. Give one of these."
                )
            memory.remove_exemplar(label, remove - 1)
        return state

    return _changed(path, change)


def rebuild_store(path: str | Path, **parameters: Any) -> LearnerState:
    """Retrain a store from its own exemplars, with another encoder, method or size.

    No original image is needed. Exemplars are decoded and coded again, so that a little of their
    quality is lost, and whatever the budget dropped earlier is not seen. Parameters that are not
    given are those of the store; for another encoder or method, those of its network are chosen.

    Raises:
        InputError: The store has no exemplars of some class, or a parameter cannot be used.
    """
    store = Path(path).resolve()
    with only_updater(store) as folder:
        before = read_store(store)
        stored = _memory_of(before).images()
        if stored is None or stored.is_known is not None:
            raise InputError(
                f"{store} cannot be rebuilt: its exemplars are parts of images, or there are none."
            )
        present = set(stored.labels.tolist())
        missing = [name for label, name in enumerate(before.classes) if label not in present]
        if missing:
            raise InputError(
                f"{store} cannot be rebuilt: class {missing[0]!r} has no exemplar. Forget it first."
            )
        given = _rebuilt_parameters(before, parameters)
        images = stored.images.read(torch.arange(len(stored))).numpy()
        names = [before.classes[label] for label in stored.labels.tolist()]
        state = run_update(None, given, images, names, None, folder)
        keep_previous(store)
        write_store(store, state)
    return state


def _changed(path: str | Path, change: Callable[[LearnerState], LearnerState]) -> LearnerState:
    store = Path(path).resolve()
    with only_updater(store):
        state = change(read_store(store))
        untrained = still_stored(state.method.memory, state.untrained)
        state = replace(state, origin=None, untrained=untrained)
        keep_previous(store)
        write_store(store, state)
    return state


def _rebuilt_parameters(before: LearnerState, given: dict[str, Any]) -> LearnerParameters:
    """Those that were given; the others are the store's, as far as they suit its new network."""
    stored, asked = before.parameters.model_dump(), LearnerParameters.of(given)
    own_method, own_encoder = before.config.method.name, _encoder_name(before)
    is_own = asked.encoder in (None, stored["encoder"], own_encoder or SCRATCH)
    method, encoder = asked.method or own_method, own_encoder if is_own else asked.encoder
    options = stored["options"] or {}
    if method == own_method and is_own:
        kept = stored | {"image_size": before.config.image_size}
    else:
        kept = {name: stored[name] for name in _KEPT_BY_REBUILD}
        options = {k: v for k, v in options.items() if k.startswith(_OPTIONS_KEPT_BY_REBUILD)}
    if takes_encoder(method) == (encoder not in (None, SCRATCH)):  # else the other one is chosen
        kept |= {"method": method, "encoder": encoder}
    kept["budget"] = _memory_of(before).config.budget  # it may have changed since it was an option
    options = {k: v for k, v in options.items() if k != "memory.budget"}
    merged = {"options": options | (asked.options or {}) or None}
    return LearnerParameters.of(kept | given | merged)


def _memory_of(state: LearnerState) -> Memory:
    if state.method.memory is None:
        raise InputError(
            f"{state.config.method.name} keeps no exemplars, so there is nothing to change."
        )
    return state.method.memory


# -------------------------------------------------------------------------------------- comparison


def compare_states(one: LearnerState, other: LearnerState) -> list[tuple[str, str, str]]:
    """What differs between two stores: what, in the first, in the second."""
    rows = [
        ("method", one.config.method.name, other.config.method.name),
        ("encoder", *(_encoder_name(state) or SCRATCH for state in (one, other))),
        ("image size", f"{one.config.image_size} px", f"{other.config.image_size} px"),
        ("budget", one.parameters.budget, other.parameters.budget),
        ("updates", str(len(one.history)), str(len(other.history))),
        ("classes", str(len(one.classes)), str(len(other.classes))),
    ]
    counts = [_exemplars(state) for state in (one, other)]
    for name in dict.fromkeys((*one.classes, *other.classes)):
        shown = [
            "not known" if name not in state.classes else f"{count[name]:,} exemplars"
            for state, count in zip((one, other), counts, strict=True)
        ]
        rows.append((f"class {name}", *shown))
    rows.append(("all that was learned", one.digest()[:12], other.digest()[:12]))
    return [row for row in rows if row[1] != row[2]]


def _exemplars(state: LearnerState) -> Counter[Label]:
    memory = state.method.memory
    if memory is None:
        return Counter()
    pairs = zip(memory.labels, memory.counts, strict=True)
    return Counter({state.classes[label]: count for label, count in pairs})


def _encoder_name(state: LearnerState) -> str | None:
    encoder = getattr(state.config.method, "encoder", None)
    return None if encoder is None else encoder.name
