"""What `remnant forget` has removed, in a file that can be compared with the store later.

The digests of removed exemplars say whether one of them is there again; no image can be made from
them.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Literal

from pydantic import Field

from remnant._version import __version__
from remnant.errors import InputError
from remnant.files import read_json_object, write_json
from remnant.learner.inputs import Label
from remnant.learner.learner_state import LearnerState
from remnant.memory import Memory
from remnant.settings import Settings


class Receipt(Settings):
    """What was removed from which store, and what is left."""

    format: Literal["remnant-receipt"] = "remnant-receipt"
    version: Literal[1] = 1
    remnant: str
    when: str  # UTC
    store: str  # its name, without the folder
    method: str
    removed_class: Label
    removed_exemplars: tuple[str, ...]  # SHA-256 of each, as it was stored
    removed_bytes: int = Field(ge=0)  # of these exemplars
    digest_before: str  # of all that was learned, as `Learner.digest`
    digest_after: str
    num_classes_after: int = Field(ge=1)
    equals_never_seen: bool  # whether what is left is as if the class had never been taught
    cannot_be_undone: tuple[str, ...]  # sentences


def make_receipt(path: Path, before: LearnerState, after: LearnerState, name: Label) -> Receipt:
    """The receipt for the removal of a class from the store at `path`."""
    label, memory = before.find(name), before.method.memory
    is_kept = memory is not None and label in memory.labels
    remains = [
        "Stores, exports, pages and cards that were written earlier still contain the class."
    ]
    if not after.method.forgets_exactly:
        remains.insert(0, "The other weights were trained on its images too.")
    return Receipt(
        remnant=__version__,
        when=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        store=path.name,
        method=before.config.method.name,
        removed_class=name,
        removed_exemplars=_digests(memory, label) if memory is not None and is_kept else (),
        removed_bytes=sum(memory.exemplar_bytes(label)) if memory is not None and is_kept else 0,
        digest_before=before.digest(),
        digest_after=after.digest(),
        num_classes_after=len(after.classes),
        equals_never_seen=after.method.forgets_exactly,
        cannot_be_undone=tuple(remains),
    )


def _digests(memory: Memory, label: int) -> tuple[str, ...]:
    return tuple(one.digest() for one in memory.exemplars(label))


def free_receipt_path(store: Path) -> Path:
    """Beside a store, a name that is not taken: `NAME.remnant.receipt-1.json`."""
    numbered = (store.with_name(f"{store.name}.receipt-{n}.json") for n in itertools.count(1))
    return next(path for path in numbered if not path.exists())


def check_receipt_path(path: Path) -> None:
    """Refuse to write a receipt over a file, which may be the receipt of another class.

    Raises:
        InputError: There is a file.
    """
    if path.exists():
        raise InputError(f"the receipt must be a new file; {path} exists. Choose another name.")


def write_receipt(path: Path, receipt: Receipt) -> None:
    write_json(path, receipt.model_dump(mode="json"))


def read_receipt(path: Path) -> Receipt:
    """The inverse of `write_receipt`.

    Raises:
        InputError: The file is missing, damaged, or no receipt.
    """
    try:
        return Receipt.parse(read_json_object(path, "a receipt of remnant forget"))
    except InputError as error:
        raise InputError(f"{path} cannot be used: {error}") from None


def compare(receipt: Receipt, state: LearnerState) -> str:
    """A sentence that says how far a store agrees with a receipt.

    Raises:
        InputError: The class, or one of its exemplars, is in the store.
    """
    name, digest = receipt.removed_class, state.digest()
    if digest == receipt.digest_before:
        raise InputError(
            f"the store is the one from before {name!r} was forgotten. Delete this copy, or give "
            "the store that the receipt was written for."
        )
    if any(str(name) == str(other) for other in state.classes):
        raise InputError(
            f"the store knows {name!r}, which the receipt says was forgotten. It has been taught "
            "again since, or this is another store; forget it again, or give the right one."
        )
    memory, gone = state.method.memory, set(receipt.removed_exemplars)
    for label in [] if memory is None else memory.labels:
        if memory is not None and gone & set(_digests(memory, label)):
            raise InputError(
                f"the store holds an exemplar of {name!r}, which the receipt says was forgotten, "
                f"as one of {state.classes[label]!r}."
            )
    if digest == receipt.digest_after:
        return f"it is the store that forgetting {name!r} left"
    return f"it has changed since {name!r} was forgotten, and has neither the class nor an exemplar"
