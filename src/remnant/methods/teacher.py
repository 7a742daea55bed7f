"""Teachers: copies of a network that no longer change.

A teacher is made from the network at the start of a task, and made again from the same weights when
a run is resumed. So it is never saved, and it does not count as something that a method keeps.
"""

from __future__ import annotations

import copy
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

NetworkT = TypeVar("NetworkT", bound=nn.Module)


class Frozen(Generic[NetworkT]):
    """A network that no optimiser, checkpoint or mode switch sees."""

    def __init__(self, network: NetworkT) -> None:
        self.network: NetworkT = copy.deepcopy(network).eval().requires_grad_(False)

    @torch.no_grad()
    def __call__(self, *inputs: Tensor) -> Tensor:
        return self.network(*inputs)


def frozen_copy(network: NetworkT) -> Frozen[NetworkT]:
    """The network as it is now."""
    return Frozen(network)


def make_teacher(backbone: nn.Module, classifier: nn.Module) -> Frozen[nn.Sequential]:
    """Views -> scores by the network as it is now: call it before the network grows."""
    return frozen_copy(nn.Sequential(backbone, classifier))
