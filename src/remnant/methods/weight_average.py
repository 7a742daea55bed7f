"""The mean of the weights over the last steps of a phase, which takes their place at its end.

While a phase lasts, the mean is part of the state that checkpoints hold; between phases there is
one network alone, and test, teacher and herding see the mean.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn


class WeightAverage(nn.Module):
    """An exponential moving average of all weights and batch statistics of a network.

    Args:
        network: Whose values the average starts from.
        decay: How much of the average a step keeps. The first steps keep less, so that the start
            of a phase is soon forgotten: k / (k + 9) after k steps, until that exceeds `decay`.
    """

    num_updates: Tensor

    def __init__(self, network: nn.Module, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("num_updates", torch.zeros((), dtype=torch.int64))
        for index, value in enumerate(_values(network)):
            self.register_buffer(f"value{index}", value.detach().clone())

    @torch.no_grad()
    def update(self, network: nn.Module) -> None:
        """Move towards the weights as they are now."""
        done = int(self.num_updates)
        kept = min(self.decay, done / (done + 9))
        for mean, value in zip(self._means(), _values(network), strict=True):
            mean.lerp_(value, 1 - kept)
        self.num_updates += 1

    @torch.no_grad()
    def put_into(self, network: nn.Module) -> None:
        """Give the network the average as its weights."""
        for mean, value in zip(self._means(), _values(network), strict=True):
            value.copy_(mean)

    def _means(self) -> Iterator[Tensor]:
        return (buffer for name, buffer in self.named_buffers() if name != "num_updates")


def _values(network: nn.Module) -> Iterator[Tensor]:
    """Everything of a state that has a mean: counters have none."""
    state = network.state_dict(keep_vars=True)
    return (value for value in state.values() if value.is_floating_point())
