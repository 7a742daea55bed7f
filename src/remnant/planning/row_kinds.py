"""Rows of each kind that a method tells apart, however rare it is, from a batch of a few rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from remnant.methods import TellsRows
from remnant.phases import Batch
from remnant.randomness import generator

_FEW = 4  # rows of each kind
_MANY = 2048  # draws


def kinds_of_rows(method: TellsRows, batch: Batch) -> Iterator[tuple[float, Batch]]:
    """The share of all rows that are of a kind, and a few such rows, for every kind."""
    many = _many_rows(batch)  # rather than the few at hand, where a rare kind may be missing
    kinds = method.row_kinds(many)
    for kind in kinds.unique().tolist():
        rows = torch.nonzero(kinds == kind).flatten()
        yield len(rows) / _MANY, many.take(rows[:_FEW])


def _many_rows(batch: Batch) -> Batch:
    """The first row many times, with other draws: to see how often rows are of which kind."""

    def draw(name: str, *shape: int) -> Tensor:
        return torch.rand(_MANY, *shape, generator=generator(0, "kinds", name))

    def repeat(rows: Tensor) -> Tensor:
        return rows[:1].expand(_MANY, *rows.shape[1:])  # no copy: photographs take gigabytes

    return replace(
        batch,
        views=repeat(batch.views),
        labels=repeat(batch.labels),
        is_replay=repeat(batch.is_replay),
        is_known=None if batch.is_known is None else repeat(batch.is_known),
        ids=repeat(batch.ids),
        draw=draw,
        twin_views=None if batch.twin_views is None else repeat(batch.twin_views),
    )
