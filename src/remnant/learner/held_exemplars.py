"""Exemplars that an update is not trained on, so that old classes can be measured on them.

Of new images that are held back, some become exemplars, one in ten of their class, and no later
update is trained on them either. They are known by their digests, wherever thinning and more images
move them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import islice
from typing import Any

import torch

from remnant.images import ImageSet, Task
from remnant.memory import Memory
from remnant.methods import Method, replayed_memory
from remnant.training.reader import ViewReader

EVERY = 10  # Chosen: one in so many images of a class is held back
ENOUGH = 20  # images of a class; of fewer, all are needed for training

Ranks = dict[int, tuple[int, ...]]  # of exemplars, by label


def choose_held(memory: Memory | None, untrained: Collection[str]) -> Ranks:
    """The exemplars of each class that an update leaves out.

    A class without untrained ones, such as one that was taught with a test set, gives one in ten of
    those that were trained on, if it has enough. They are left out from then on.

    Args:
        memory: Before the update.
        untrained: Digests of exemplars that nothing was trained on.
    """
    found: Ranks = {}
    for label in [] if memory is None else memory.labels:
        assert memory is not None, "there are labels"
        exemplars = memory.exemplars(label)
        ranks = tuple(
            rank for rank, one in enumerate(exemplars) if untrained and one.digest() in untrained
        )
        if not ranks and len(exemplars) >= ENOUGH:
            ranks = tuple(range(EVERY - 1, len(exemplars), EVERY))
        if 0 < len(ranks) < len(exemplars):
            found[label] = ranks
    return found


def take_out(method: Method[Any], held: Ranks) -> None:
    """Leave exemplars out of a method that is about to be trained."""
    for label, ranks in held.items():
        assert method.memory is not None, "exemplars are held back"
        method.memory.take_out(label, ranks)


def split_exemplars(
    method: Method[Any], held: Ranks, reader: ViewReader
) -> tuple[ImageSet | None, ImageSet | None]:
    """The exemplars that are held back, and all of classes that hold none back; None for no image.

    Args:
        method: Before the update, with all its exemplars.
        held: What `choose_held` gave for it.
        reader: Completes exemplars that are known in part.
    """
    stored = None if method.memory is None else replayed_memory(method, reader)
    if stored is None:
        return None, None
    labels = stored.labels
    places = {label: (labels == label).nonzero()[:, 0] for label in labels.unique().tolist()}
    chosen = [places[label][list(ranks)] for label, ranks in held.items()]
    others = [found for label, found in places.items() if label not in held]
    return (
        stored.select(torch.cat(chosen)) if chosen else None,
        stored.select(torch.cat(others)) if others else None,
    )


def keep_held(
    method: Method[Any],
    before: Memory | None,
    held: Ranks,
    task: Task,
    held_back: ImageSet | None,
    reader: ViewReader,
) -> tuple[str, ...]:
    """Put exemplars back after training and keep some of the new images that were held back.

    Args:
        method: After the update.
        before: The memory before it.
        held: What was taken out.
        task: Of the update.
        held_back: Of its images.
        reader: Reads them.

    Returns:
        Digests of the exemplars that nothing was trained on.
    """
    memory = method.memory
    if memory is None:
        return ()
    kept: list[str] = []
    for label, ranks in held.items():
        assert before is not None, "exemplars were taken out"
        old = before.exemplars(label)
        memory.insert(label, {rank: old[rank] for rank in ranks})
        kept += [old[rank].digest() for rank in ranks]
    more = task if held_back is None else replace(task, train=held_back)
    for label in [] if held_back is None else held_back.labels.unique().tolist():
        num_held = len(held.get(label, ()))
        num_trained = len(memory.exemplars(label)) - num_held
        count = num_trained // (EVERY - 1) - num_held
        offered = memory.encode_more(label, method.candidates(more, label, reader))
        new = list(islice(offered, max(count, 0)))
        memory.insert(label, {EVERY * place - 1: one for place, one in enumerate(new, start=1)})
        kept += [one.digest() for one in new]
    return still_stored(memory, kept)


def still_stored(memory: Memory | None, digests: Collection[str]) -> tuple[str, ...]:
    """Those of exemplars in the memory, so that nothing is left of one that was removed."""
    if memory is None or not digests:
        return ()
    stored = {one.digest() for label in memory.labels for one in memory.exemplars(label)}
    return tuple(sorted(stored & set(digests)))
