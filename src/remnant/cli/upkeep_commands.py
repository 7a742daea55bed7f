"""Commands for the upkeep of a store: verify, score, undo, diff, rebudget, thin and rebuild."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from remnant.cli import console
from remnant.cli.store_commands import Card, check_card, check_length, explaining_stops, tell_card
from remnant.errors import InputError, amount
from remnant.terminal.visible import visible

if TYPE_CHECKING:
    from remnant.learner.learner_state import LearnerState

_SHOWN_MISTAKES = 5


def verify(store: Path, /, *, receipt: Path | None = None) -> None:
    """Check a whole store: checksum, weights, classes, budget, and that every exemplar decodes.

    Parameters
    ----------
    store
        A store file, as written by `remnant learn`.
    receipt
        A receipt from `remnant forget`: its class and exemplars must be gone from the store.
    """
    from remnant.learner.receipts import compare, read_receipt
    from remnant.learner.verification import verify_store

    given = None if receipt is None else read_receipt(receipt)
    found = verify_store(store)
    line = f"{visible(store)}: {found.sentence()}"
    if given is not None:
        line += f"; by the receipt, {visible(compare(given, found.state))}"
    console.out.print(line, markup=False, highlight=False)


def score(store: Path, folder: Path, /, *, as_json: console.JsonOption = False) -> None:
    """Measure the accuracy on a folder of class folders, per class, with confusions and mistakes.

    Parameters
    ----------
    store
        A store file, as written by `remnant learn`.
    folder
        A folder with one sub-folder of images per class; all classes must be known.
    """
    from remnant.learner.scoring import score_folder
    from remnant.learner.store import read_store
    from remnant.terminal.store_tables import score_table

    scored = score_folder(read_store(store), folder)
    if as_json:
        console.print_json(scored.facts())
        return
    facts = scored.facts()
    console.out.print(f"{facts['accuracy']:.1f} % of {facts['images']:,} images are correct\n")
    console.out.print(score_table(scored.class_rows()))
    for note in scored.notes:
        console.out.print(f"note: {visible(note)}", markup=False, highlight=False)
    if scored.files:
        console.out.print("\nmost frequent confusions:")
    for true, taken, count, total in scored.confusions()[:_SHOWN_MISTAKES]:
        line = f"{visible(true)} taken for {visible(taken)}: {count:,} of {total:,}"
        console.out.print(line, markup=False, highlight=False)
    if scored.files:
        console.out.print("\nmost confident mistakes:")
    for file, true, taken, share in scored.files[:_SHOWN_MISTAKES]:
        line = (
            f"{visible(file)}: {visible(true)} predicted as {visible(taken)} ({100 * share:.0f} %)"
        )
        console.out.print(line, markup=False, highlight=False)


def undo(store: Path, /) -> None:
    """Undo the last update of a store, once.

    Parameters
    ----------
    store
        A store file, as written by `remnant learn`.
    """
    from remnant.learner.store import undo_in_store

    with explaining_stops(store, has_checkpoints=False):
        state = undo_in_store(store)
    console.out.print(
        f"{store} is as it was before its last update: {amount(len(state.classes), 'class')}, "
        f"{amount(state.num_exemplars, 'exemplar')}.",
        markup=False,
        highlight=False,
    )


def diff(one: Path, other: Path, /, *, as_json: console.JsonOption = False) -> None:
    """Show what differs between two stores.

    Parameters
    ----------
    one
        A store file.
    other
        Another one.
    """
    from remnant.learner.store import read_store
    from remnant.learner.upkeep import compare_states
    from remnant.terminal.store_tables import difference_table

    rows = compare_states(read_store(one), read_store(other))
    if as_json:
        console.print_json([{"what": what, "one": a, "other": b} for what, a, b in rows])
    elif rows:
        console.out.print(difference_table(rows, str(one), str(other)))
    else:
        console.out.print("The stores are the same.")


def rebudget(store: Path, budget: str, /) -> None:
    """Change the budget of a store; exemplars that no longer fit are removed, worst first.

    Parameters
    ----------
    store
        A store file, as written by `remnant learn`.
    budget
        Memory for exemplars, per class or in total: 1MiB/class, 20MiB.
    """
    from remnant.learner.store import read_store
    from remnant.learner.upkeep import rebudget_store

    before = read_store(store)
    with explaining_stops(store, has_checkpoints=False):
        state = rebudget_store(store, budget)
    _tell_memory(store, before, state)


def thin(
    store: Path,
    name: str | None = None,
    /,
    *,
    budget: str | None = None,
    keep: int | None = None,
    remove: int | None = None,
) -> None:
    """Remove exemplars: of all classes by a smaller budget, or of one class.

    What was learned from them stays, until the store is rebuilt or the class forgotten.

    Parameters
    ----------
    store
        A store file, as written by `remnant learn`.
    name
        A class, for --keep and --remove.
    budget
        Another budget for all classes, as for `remnant rebudget`.
    keep
        How many of its best exemplars to keep.
    remove
        The number of one exemplar, from 1, as `remnant inspect --html` and the page of `remnant
        serve` show it.
    """
    if budget is not None:
        if (name, keep, remove) != (None, None, None):
            raise InputError("give either --budget, or a class with --keep or --remove.")
        return rebudget(store, budget)
    if name is None:
        raise InputError("give --budget, or a class with --keep or --remove.")
    from remnant.learner.store import read_store
    from remnant.learner.upkeep import thin_store

    before = read_store(store)
    label = console.class_label(name, before.classes)
    with explaining_stops(store, has_checkpoints=False):
        state = thin_store(store, label, keep=keep, remove=remove)
    return _tell_memory(store, before, state)


def rebuild(
    store: Path,
    /,
    *,
    encoder: str | None = None,
    method: str | None = None,
    image_size: int | None = None,
    epochs: int | None = None,
    minutes: float | None = None,
    card: Card = False,
) -> None:
    """Retrain a store from its own exemplars, without the original images.

    Parameters
    ----------
    store
        A store file, as written by `remnant learn`.
    encoder
        A pretrained network, as for `remnant learn`; none trains from scratch.
    method
        A name from `remnant list methods`.
    image_size
        Side in pixels to which images are resized.
    epochs
        Passes over the exemplars, for methods that train.
    minutes
        Train for about this many minutes instead, by the clock.
    """
    from remnant.learner.summary import store_facts
    from remnant.learner.upkeep import rebuild_store
    from remnant.terminal.store_tables import newest_update

    check_length(epochs, minutes)
    given = {
        "encoder": encoder,
        "method": method,
        "image_size": image_size,
        "epochs": epochs,
        "minutes": minutes,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if not given:
        raise InputError(
            "nothing would change. Give --encoder, --method, --image-size, --epochs or --minutes."
        )
    if card:
        check_card(store)
    with explaining_stops(store):
        state = rebuild_store(store, **given)
    console.out.print(newest_update(store_facts(state, store)))
    if card:
        tell_card(state, store, None)
    console.suggest("remnant undo", shlex.quote(str(store)))


def _tell_memory(store: Path, before: LearnerState, state: LearnerState) -> None:
    from remnant.learner.previous_store import previous_of
    from remnant.learner.summary import store_facts
    from remnant.terminal.store_tables import store_lines

    lines, kept = [*store_lines(store_facts(state, store))], previous_of(store.resolve())
    if state.num_exemplars < before.num_exemplars:
        lines.append(
            f"The store from before is kept as {visible(kept.name)}, with what was "
            "removed; delete that file if it must be gone."
        )
    for line in lines:
        console.out.print(line, markup=False, highlight=False)
