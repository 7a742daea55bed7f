"""The linear classifier that grows with the tasks.

[wa] Zhao et al., CVPR 2020 (weight alignment).
[la] Menon et al., ICLR 2021 (logit adjustment).

Departs from PyCIL: new rows and biases are drawn as `nn.Linear` draws them, uniform up to
1/sqrt(D), which gives rows a length of about 0.58. PyCIL draws rows of length 1, biases of 0.

Axes: B images, D width, K classes seen so far.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from remnant.models.precision import in_float32


class LinearClassifier(nn.Module):
    """One row of weights per class; starts with none."""

    bias: nn.Parameter | None
    adjustment: Tensor | None

    def __init__(self, width: int, bias: bool = True) -> None:
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.empty(0, width))  # [K, D]
        self.bias = nn.Parameter(torch.empty(0)) if bias else None  # [K]
        # [K]: what `adjust_biases` has taken from the biases; None: they cannot be adjusted.
        self.register_buffer("adjustment", None)

    def make_adjustable(self) -> None:
        """Before the first class comes: let `adjust_biases` change the biases."""
        assert self.bias is not None, "there are no biases to adjust"
        assert self.num_classes == 0, "a classifier of classes keeps its form"
        self.adjustment = torch.empty(0)

    @property
    def num_classes(self) -> int:
        return len(self.weight)

    def forward(self, features: Tensor) -> Tensor:
        """[B, D] -> scores [B, K]."""
        with in_float32(features) as exact:
            return functional.linear(exact, self.weight, self.bias)

    def grow(self, num_new_classes: int, generator: torch.Generator | None = None) -> None:
        """Append rows drawn as `nn.Linear` draws them; old rows keep every bit.

        The parameters are new objects afterwards: optimisers made before hold the old ones.
        """
        if num_new_classes < 1:
            raise ValueError(f"a classifier grows by at least one class; got {num_new_classes}")
        bound = self.width**-0.5
        rows = torch.empty(num_new_classes, self.width).uniform_(-bound, bound, generator=generator)
        self.weight = _append(self.weight, rows)
        if self.bias is not None:
            entries = torch.empty(num_new_classes).uniform_(-bound, bound, generator=generator)
            self.bias = _append(self.bias, entries)
        if self.adjustment is not None:
            self.adjustment = append_rows(self.adjustment, torch.zeros(num_new_classes))

    def cut(self, label: int) -> None:
        """Remove the row of one class; those behind it move up, bit for bit."""
        is_kept = torch.arange(self.num_classes, device=self.weight.device) != label
        self.weight = _keep(self.weight, is_kept)
        if self.bias is not None:
            self.bias = _keep(self.bias, is_kept)
        if self.adjustment is not None:
            self.adjustment = self.adjustment[is_kept]


def _append(old: nn.Parameter, new: Tensor) -> nn.Parameter:
    return nn.Parameter(append_rows(old.detach(), new), requires_grad=old.requires_grad)


def append_rows(old: Tensor, new: Tensor) -> Tensor:
    """Rows [N, ...] and [M, ...] -> [N + M, ...], of the type and on the device of the old ones.

    `torch.cat` would do, but imports torch's compiler where only shapes are asked for (on the
    device "meta"), which takes seconds.
    """
    joined = old.new_empty(len(old) + len(new), *old.shape[1:])
    joined[: len(old)], joined[len(old) :] = old, new
    return joined


def _keep(rows: nn.Parameter, is_kept: Tensor) -> nn.Parameter:
    return nn.Parameter(rows.detach()[is_kept], requires_grad=rows.requires_grad)


@torch.no_grad()
def align_new_rows(classifier: LinearClassifier, num_old_classes: int) -> None:
    """Scale the rows of the new classes to the mean length of the old ones; biases stay [wa]."""
    old, new = classifier.weight[:num_old_classes], classifier.weight[num_old_classes:]
    new *= old.norm(dim=1).mean() / new.norm(dim=1).mean()


@torch.no_grad()
def adjust_biases(classifier: LinearClassifier, counts: Tensor, weight: float) -> None:
    """Take `weight` times the log of each class's number of images [K] from its scores [la].

    What an earlier call took is given back first. A class without images is treated as the one that
    has fewest. The mean bias stays.
    """
    restore_biases(classifier)
    bias, taken = _adjustable(classifier)
    counts = counts.to(bias)
    prior = counts.clamp(min=counts[counts > 0].min()).log()
    taken += weight * (prior - prior.mean())
    bias -= taken


@torch.no_grad()
def restore_biases(classifier: LinearClassifier) -> None:
    """Give back what `adjust_biases` took: biases are as training left them, but for rounding."""
    bias, taken = _adjustable(classifier)
    bias += taken
    taken.zero_()


def _adjustable(classifier: LinearClassifier) -> tuple[nn.Parameter, Tensor]:
    assert classifier.bias is not None, "only a classifier with biases can be adjusted"
    assert classifier.adjustment is not None, "a classifier must be made adjustable first"
    return classifier.bias, classifier.adjustment
