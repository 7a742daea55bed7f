"""Cosine classifiers that grow with the tasks: one vector per class, or several proxies.

[ucir] Hou et al., CVPR 2019. [podnet] Douillard et al., ECCV 2020.

The rows of old and of new classes are two parameters: a phase that leaves `old` out can neither
give it a gradient nor decay it. Lengths of rows and of features do not matter to any score.

Axes: B images, D width, K classes seen so far, P proxies of a class.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from remnant.models.precision import in_float32


class SplitClassifier(nn.Module):
    """Rows of old and of new classes under one learnable scale; starts with none."""

    def __init__(self, *row_shape: int) -> None:
        super().__init__()
        self.row_shape = row_shape  # D last
        self.old = nn.Parameter(torch.empty(0, *row_shape))
        self.new = nn.Parameter(torch.empty(0, *row_shape))
        self.scale = nn.Parameter(torch.ones(()))  # eta, 1 at first in both papers

    @property
    def num_classes(self) -> int:
        return len(self.old) + len(self.new)

    @property
    def rows(self) -> Tensor:
        """All classes, old ones first: [K, *row_shape]."""
        return torch.cat([self.old, self.new])

    @abstractmethod
    def compare(self, features: Tensor) -> Tensor:
        """[B, D] -> similarities [B, K], in the precision of the features."""

    def similarities(self, features: Tensor) -> Tensor:
        """[B, D] -> [B, K], before the scale; in float32, for losses as for predictions."""
        with in_float32(features) as exact:
            return self.compare(exact)

    def forward(self, features: Tensor) -> Tensor:
        """[B, D] -> scores [B, K]."""
        return self.scale * self.similarities(features)

    @abstractmethod
    def draw(self, num_new_classes: int, generator: torch.Generator | None) -> Tensor:
        """Rows as they are before any training."""

    def grow(self, num_new_classes: int, generator: torch.Generator | None = None) -> None:
        """Call the new classes old, bit for bit, and draw rows for others.

        The parameters are new objects afterwards: optimisers made before hold the old ones.
        """
        if num_new_classes < 1:
            raise ValueError(f"a classifier grows by at least one class; got {num_new_classes}")
        drawn = self.draw(num_new_classes, generator).to(self.new)
        is_moving = self.new.requires_grad
        self.old = nn.Parameter(self.rows.detach(), requires_grad=is_moving)
        self.new = nn.Parameter(drawn, requires_grad=is_moving)

    @torch.no_grad()
    def imprint(self, rows: Tensor) -> None:
        """Give the new classes these rows, times the mean length of the old ones."""
        self.new.copy_(rows * self.old.norm(dim=-1).mean().to(rows))


class CosineClassifier(SplitClassifier):
    """The cosine between a feature and the one vector of a class [ucir]."""

    def __init__(self, width: int) -> None:
        super().__init__(width)

    def compare(self, features: Tensor) -> Tensor:
        return functional.normalize(features) @ functional.normalize(self.rows).T

    def draw(self, num_new_classes: int, generator: torch.Generator | None) -> Tensor:
        bound = self.row_shape[-1] ** -0.5  # as `nn.Linear`
        shape = (num_new_classes, *self.row_shape)
        return torch.empty(shape).uniform_(-bound, bound, generator=generator)


class ProxyClassifier(SplitClassifier):
    """Local similarity: several proxies of a class, those nearest to a feature counting most."""

    def __init__(self, width: int, num_proxies: int) -> None:
        super().__init__(num_proxies, width)

    def compare(self, features: Tensor) -> Tensor:
        units = functional.normalize(features)  # [B, D]
        proxies = functional.normalize(self.rows, dim=-1)  # [K, P, D]
        near = 2 * torch.einsum("bd,kpd->bkp", units, proxies) - 2  # minus squared distances
        return (near.softmax(dim=-1) * near).sum(dim=-1)  # [B, K]

    def draw(self, num_new_classes: int, generator: torch.Generator | None) -> Tensor:
        deviation = self.row_shape[-1] ** -0.5  # [podnet] Kaiming-normal
        shape = (num_new_classes, *self.row_shape)
        return torch.empty(shape).normal_(0, deviation, generator=generator)
