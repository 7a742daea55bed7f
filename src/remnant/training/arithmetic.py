"""FLOPs as they happen: of a block of code, and of training steps at next to no cost.

FLOPs count 2 per multiply-add of every convolution and matrix product, attention included. They
depend on shapes alone, so that a step need not be counted if an equal one was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_flop_count

from remnant.images import Task
from remnant.phases import Batch, Phase, Terms

_aten = torch.ops.aten


class FlopCount(TorchDispatchMode):
    """Within the block, adds up the FLOPs of this thread, and changes no result."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        out = func(*args, **given)
        formula = _FORMULAS.get(func.overloadpacket)
        if formula is not None:
            self.flops += formula(*args, **given, out_val=out)
        return out


def is_counted(func: Any) -> bool:
    """Whether an operation is one of those that count."""
    return func.overloadpacket in _FORMULAS


def _attention(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    return sdpa_flop_count(query.shape, key.shape, value.shape)


def _attention_backward(gradient: Tensor, *inputs: Any, **_: Any) -> int:
    """Twice the forward pass, as if spelt out: what a kernel computes again is not counted."""
    return 2 * _attention(*inputs[:3])


_KERNELS = ("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu")
_FORMULAS: Mapping[Any, Callable[..., int]] = (
    dict(flop_registry)
    | {getattr(_aten, f"_scaled_dot_product_{name}"): _attention for name in _KERNELS}
    | {
        getattr(_aten, f"_scaled_dot_product_{name}_backward"): _attention_backward
        for name in _KERNELS
    }
)


def counted_apart(
    method: nn.Module, parameters: Sequence[nn.Parameter], work: Callable[[], object]
) -> int:
    """The FLOPs of a training step that leaves no trace: it runs beside the one that counts.

    For compiled code, which no count looks into: `work` runs uncompiled here.
    """
    buffers = [(buffer, buffer.clone()) for buffer in method.buffers()]
    gradients = [parameter.grad for parameter in parameters]
    devices = {parameter.device for parameter in parameters if parameter.device.type == "cuda"}
    for parameter in parameters:
        parameter.grad = None
    with (
        torch.random.fork_rng(devices=list(devices)),
        torch.compiler.set_stance("force_eager"),
        FlopCount() as count,
    ):
        work()
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    with torch.no_grad():
        for buffer, before in buffers:
            buffer.copy_(before)
    return count.flops


# -------------------------------------------------------------------------------- training steps

Rows = tuple[int, int, int, int]  # new and replayed rows known whole, then those known in part


def count_rows(batch: Batch) -> Rows:
    """How many rows of each kind a batch has."""
    is_new = ~batch.is_replay
    is_whole = torch.ones_like(is_new)
    if batch.is_known is not None:
        is_whole = batch.is_known.flatten(1).all(dim=1)
    kinds = (is_new & is_whole, ~is_new & is_whole, is_new & ~is_whole, ~is_new & ~is_whole)
    new, replayed, new_in_part, replayed_in_part = torch.stack(kinds).sum(dim=1).tolist()
    return new, replayed, new_in_part, replayed_in_part


class StepArithmetic:
    """What steps of one kind take, as a function of their rows.

    A few steps are counted. Once the FLOPs of a row of each kind follow from these and another
    step agrees, all later ones are computed. Where steps are not the sum of their rows, every step
    that is not equal to an earlier one is counted.
    """

    def __init__(self) -> None:
        self._seen: dict[Rows, int] = {}
        self._per_row: np.ndarray | None = None  # of each kind; 0 for kinds not seen yet
        self._is_checked = False
        self._is_sum_of_rows = True

    def known(self, rows: Rows) -> int | None:
        """The FLOPs of a step; None where it must be counted."""
        if rows in self._seen:
            return self._seen[rows]
        return self._predict(rows) if self._is_checked and self._is_sum_of_rows else None

    def learn(self, rows: Rows, flops: int) -> None:
        """Note what a step took."""
        predicted = self._predict(rows)
        if predicted is not None:
            self._is_checked = True
            self._is_sum_of_rows &= predicted == flops
        self._seen[rows] = flops
        self._per_row = self._solve()

    def _predict(self, rows: Rows) -> int | None:
        if self._per_row is None or any(np.array(rows)[self._unseen]):
            return None
        return int(self._per_row @ np.array(rows))

    @property
    def _unseen(self) -> np.ndarray:
        """Kinds of rows that no step had: bool [4]."""
        return ~np.array(list(self._seen)).any(axis=0)

    def _solve(self) -> np.ndarray | None:
        """FLOPs per row of each kind; None where the steps do not decide them."""
        steps = np.array(list(self._seen), dtype=np.float64)
        kinds = ~self._unseen
        if np.linalg.matrix_rank(steps) < kinds.sum():
            return None
        found = np.linalg.lstsq(steps, np.array(list(self._seen.values())), rcond=None)[0]
        return found.round().astype(np.int64)


class PhaseArithmetic:
    """A phase under way, and what its steps are known to take."""

    def __init__(self, method: nn.Module, task: Task, phase: Phase) -> None:
        self.task = task
        self.phase = phase
        self.method = method
        self._kinds: dict[tuple[int, bool], dict[frozenset[str], StepArithmetic]] = {}

    def counted(
        self, player: int, batch: Batch, move: Callable[[], Terms], *, is_compiled: bool
    ) -> tuple[Terms, int]:
        """The loss terms that `move` returns, and the FLOPs that it takes."""
        is_whole = self.phase.is_whole_step
        kind = (player, is_whole is not None and is_whole(batch.step, batch.num_steps))
        # Steps may also differ in their terms, which are known only afterwards.
        variants, rows = self._kinds.setdefault(kind, {}), count_rows(batch)
        is_known = bool(variants) and all(one.known(rows) is not None for one in variants.values())
        if is_known or is_compiled:
            terms, flops = move(), None
        else:
            with FlopCount() as count:
                terms = move()
            flops = count.flops
        arithmetic = variants.setdefault(frozenset(terms), StepArithmetic())
        known = arithmetic.known(rows)
        if known is not None:
            return terms, known
        if flops is None:
            flops = counted_apart(self.method, self.phase.parameters, move)
        arithmetic.learn(rows, flops)
        return terms, flops

    def num_new_images(self, batch: Batch) -> int:
        return int((batch.labels >= self.task.num_old_classes).sum())
