"""A store checked whole: all that reading checks, and every exemplar decoded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from remnant.archives import read_archive
from remnant.errors import InputError
from remnant.learner.learner_state import LearnerState
from remnant.learner.store import KIND, VERSION, read_store
from remnant.training.checkpoints import MEMORY_PAYLOAD
from remnant.training.task_loop import standing_state

_AT_ONCE = 256  # exemplars, so that little memory is needed


@dataclass(frozen=True)
class Verified:
    """What was found in a store that is sound."""

    state: LearnerState
    digest: str
    num_numbers: int  # in the arrays of the network

    def sentence(self) -> str:
        memory = self.state.method.memory
        kept = "it keeps no exemplars"
        if memory is not None:
            kept = (
                f"{self.state.num_exemplars:,} exemplars decode, {memory.nbytes:,} of "
                f"{memory.budget_bytes:,} bytes are used"
            )
        return (
            f"checksum correct, {self.num_numbers:,} finite numbers for "
            f"{len(self.state.classes):,} classes; {kept}; digest {self.digest[:12]}"
        )


def verify_store(path: Path) -> Verified:
    """Read a store and check all that it holds.

    Raises:
        InputError: Something is wrong; the sentence says what.
    """
    state = read_store(path)  # checksum, settings, weights, memory against classes and budget
    expected, _ = standing_state(state.method)
    arrays, _ = read_archive(path, KIND, VERSION, MEMORY_PAYLOAD)
    if superfluous := sorted(set(arrays) - set(expected)):
        raise InputError(
            f"{path} holds {superfluous[0]}, which nothing reads. Restore it from a copy."
        )
    _decode_all(state, path)
    weights = [array for name, array in arrays.items() if name.startswith("model/")]
    return Verified(state, state.digest(), sum(array.size for array in weights))


def _decode_all(state: LearnerState, path: Path) -> None:
    memory = state.method.memory
    try:
        stored = None if memory is None else memory.images()  # decodes a small memory at once
        if stored is not None:
            for places in torch.arange(len(stored)).split(_AT_ONCE):
                stored.images.read(places)
    except InputError as error:
        raise InputError(f"{path}: {error} Restore it from a copy.") from None
