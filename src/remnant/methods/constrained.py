"""Parts of methods whose steps must not raise the loss on what is remembered.

[gem] Lopez-Paz and Ranzato, NeurIPS 2017. [a-gem] Chaudhry et al., ICLR 2019.

A phase gets one more player for each loss that must not rise. Such a player differentiates like any
other, on one device or many, hands its gradient over and moves nothing. The last player projects
its own gradient by what the others found.

Departs from [gem] and PyCIL: these gradients are of the replayed rows of a batch. There, they are
of the whole memory at every step, which takes as many images as the memory has.
Departs from [gem] and [a-gem]: with several processes, or gradients accumulated, a mean over some
rows of a batch is the mean of those of its parts, by their sizes.
Departs from [gem] and [a-gem]: they clip nothing. Where an optimiser clips, it is the gradients
that a projection is found from, not what comes out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remnant.phases import Batch, Phase, Terms

_RIDGE = 1e-3  # on the diagonal of the quadratic program: the release of [gem], mammoth, PyCIL
_PIECE = 1 << 20  # numbers of each gradient that are in double precision at a time

Project = Callable[[Tensor, Tensor], Tensor]  # gradient [P], references [T, P] -> gradient [P]


# -------------------------------------------------------------------------------- the projections


def project_by_all(gradient: Tensor, references: Tensor, margin: float) -> Tensor:
    """The gradient [P] moved until it agrees with every reference [T, P] [gem].

    If it has a negative product with any of them, it becomes g + G'v, where v >= margin minimises
    1/2 v'(GG' + ridge)v + (Gg)'v, the dual of finding the nearest gradient that agrees with all.
    With the Cholesky factor L of the matrix this is min ||L'u + L^-1 q|| over u = v - margin >= 0:
    a least squares problem with no negative unknown, which `scipy.optimize.nnls` solves exactly in
    a few steps. scipy comes with scikit-learn, so that no solver of quadratic programs is needed.
    """
    products = references @ gradient  # [T]
    if not bool((products < 0).any()):
        return gradient
    from scipy.optimize import nnls  # takes half a second that all other methods can do without

    matrix = _products(references, references) + _RIDGE * np.eye(len(references))
    least = np.full(len(references), margin)
    factor = np.linalg.cholesky(matrix)
    linear = _products(references, gradient[None])[:, 0] + matrix @ least
    above, _ = nnls(factor.T, -np.linalg.solve(factor, linear))
    return gradient + torch.from_numpy(above + least).to(references) @ references


def _products(rows: Tensor, others: Tensor) -> np.ndarray:
    """Of vectors [T, P] and [U, P]: [T, U], as exact as a factor of it has to be.

    In single precision the errors of long gradients exceed the ridge, and no factor may exist.
    """
    on_device = rows.device.type != "mps"  # which has no double precision
    total = torch.zeros(len(rows), len(others), dtype=torch.float64)
    pieces = (matrix.split(_PIECE, dim=1) for matrix in (rows, others))
    for row, other in zip(*pieces, strict=True):
        left, right = ((one if on_device else one.cpu()).double() for one in (row, other))
        total += (left @ right.T).cpu()
    return total.numpy()


def project_by_one(gradient: Tensor, reference: Tensor) -> Tensor:
    """The gradient [P] without its part against the reference [P], if it has one [a-gem]."""
    product = gradient @ reference
    if product >= 0:
        return gradient
    return gradient - product / (reference @ reference) * reference


# --------------------------------------------------------------------------------------- the phase


def constrained(
    phase: Phase, losses: Mapping[str, Callable[[Batch], Terms]], project: Project
) -> Phase:
    """The phase with a player before its own for each of the losses that must not rise."""
    if not losses:
        return phase
    (player,) = phase.players
    found: dict[str, Tensor] = {}  # of the current step: references come before their use

    def hand_over(name: str) -> None:
        found[name] = read_gradient(player.parameters)
        for parameter in player.parameters:
            parameter.grad = None  # the step that follows moves nothing

    def apply() -> None:
        references = torch.stack([found[name] for name in losses])  # [T, P]
        gradient = project(read_gradient(player.parameters), references)
        write_gradient(player.parameters, gradient)

    references = [
        replace(player, loss=loss, on_gradients=partial(hand_over, name))
        for name, loss in losses.items()
    ]
    return replace(phase, players=(*references, replace(player, on_gradients=apply)))


def read_gradient(parameters: Sequence[nn.Parameter]) -> Tensor:
    """All gradients as one vector [P]; 0 where a parameter has none."""
    parts = [torch.zeros_like(one) if one.grad is None else one.grad.detach() for one in parameters]
    return torch.cat([part.flatten() for part in parts])


def write_gradient(parameters: Sequence[nn.Parameter], gradient: Tensor) -> None:
    """The inverse of `read_gradient`."""
    parts = gradient.split([one.numel() for one in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.grad = part.view_as(parameter).clone()


# -------------------------------------------------------------------------------------- their loss


def tasks_of(labels: Tensor, starts: Sequence[int]) -> Tensor:
    """The task [B] that each label came with; `starts` are the first labels of the tasks."""
    bounds = torch.tensor(starts[1:], dtype=labels.dtype, device=labels.device)
    return torch.bucketize(labels, bounds, right=True)


def within_tasks(scores: Tensor, labels: Tensor, starts: Sequence[int]) -> Tensor:
    """Scores [B, K] with minus infinity for classes that came with another task than the label."""
    tasks = tasks_of(torch.arange(scores.shape[1], device=labels.device), starts)  # [K]
    is_other = tasks_of(labels, starts)[:, None] != tasks  # [B, K]
    return scores.masked_fill(is_other, -torch.inf)


def cross_entropy_of(
    predict: Callable[[Tensor], Tensor],
    batch: Batch,
    is_counted: Tensor,
    *,
    starts: Sequence[int] | None,
    idle: Tensor,
) -> Tensor:
    """Mean over the rows that count; the network sees no others.

    Args:
        predict: Views -> scores [B, K].
        batch: Of which some rows count.
        is_counted: bool [B].
        starts: First labels of the tasks, where each label competes with those of its task alone.
        idle: A parameter, to have a gradient of zero where no row counts.
    """
    if not bool(is_counted.any()):
        return idle.sum() * 0
    scores, labels = predict(batch.views[is_counted]), batch.labels[is_counted]
    if starts is not None:
        scores = within_tasks(scores, labels, starts)
    return F.cross_entropy(scores, labels)
