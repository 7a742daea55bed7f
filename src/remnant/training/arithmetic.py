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
from remnant.methods.abilities import TellsRows
from remnant.phases import Batch, Phase, Terms

_aten = torch.ops.aten


class FlopCount(TorchDispatchMode):
    """Within the block, adds up the FLOPs of this thread, and changes no result."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: torch would import its compiler, a second, to keep it away from what follows."""
        return False

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

    For compiled code, which no count looks into: `work` runs uncompiled here, and in evaluation
    mode: norms do not count, and SyncBatchNorm would wait for processes that need no count.
    """
    modes = [(part, part.training) for part in method.modules()]
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
        method.eval()
        work()
    for part, is_training in modes:
        part.training = is_training
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    with torch.no_grad():
        for buffer, before in buffers:
            buffer.copy_(before)
    return count.flops


# -------------------------------------------------------------------------------- training steps

RowCounts = tuple[int, ...]  # how many rows of each kind a batch has
_MAX_KINDS = 32
_CHECKS = 3  # steps that must agree before others are computed


def count_rows(method: nn.Module, batch: Batch) -> RowCounts:
    """Rows are told apart by whether they are replayed, known in part, and by the method."""
    kinds = batch.is_replay.long()
    if batch.is_known is not None:
        kinds = kinds + 2 * (~batch.is_known.flatten(1).all(dim=1)).long()
    if isinstance(method, TellsRows):
        kinds = kinds + 4 * method.row_kinds(batch).to(kinds.device)
    return tuple(torch.bincount(kinds, minlength=_MAX_KINDS).tolist())


class StepArithmetic:
    """What steps of one kind take, as a function of their rows.

    A few steps are counted. Once the FLOPs of a row of each kind follow from these and some more
    steps agree, all later ones are computed. Where steps are not the sum of their rows, each is
    counted.
    """

    def __init__(self) -> None:
        self._seen: dict[RowCounts, int] = {}
        self._per_row: np.ndarray | None = None  # of each kind; 0 for kinds not seen yet
        self._num_checks = 0
        self._is_sum_of_rows = True

    def known(self, rows: RowCounts) -> int | None:
        """The FLOPs of a step; None where it must be counted."""
        if not self._is_sum_of_rows or self._num_checks < _CHECKS:
            return None
        return self._predict(rows)

    def learn(self, rows: RowCounts, flops: int) -> None:
        """Note what a step took."""
        predicted = self._predict(rows)
        if predicted is not None:
            self._num_checks += 1
            self._is_sum_of_rows &= predicted == flops
            return
        if self._has_new_kind(rows):
            self._num_checks = 0
        self._seen[rows] = flops
        self._per_row = self._solve()

    def _predict(self, rows: RowCounts) -> int | None:
        if rows in self._seen:
            return self._seen[rows]
        if self._per_row is None or self._has_new_kind(rows):
            return None
        return int(self._per_row @ np.array(rows))

    def _has_new_kind(self, rows: RowCounts) -> bool:
        return any(count > 0 and not has for count, has in zip(rows, self._kinds, strict=True))

    @property
    def _kinds(self) -> list[bool]:
        """Which kinds of rows some step had."""
        if not self._seen:
            return [False] * _MAX_KINDS
        return [any(counts) for counts in zip(*self._seen, strict=True)]

    def _solve(self) -> np.ndarray | None:
        """FLOPs per row of each kind; None where the steps do not decide them."""
        steps = np.array(list(self._seen), dtype=np.float64)
        if np.linalg.matrix_rank(steps) < sum(self._kinds):
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
        variants, rows = self._kinds.setdefault(kind, {}), count_rows(self.method, batch)
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
