"""Gates that learn which channels of a network are needed.

[hat] Serra et al., ICML 2018. [der] Yan et al., CVPR 2021.

The gate of a channel is sigmoid(scale x logit). The scale grows within every epoch from almost 0,
where all gates are half open and learn, to a large number, where they are almost 0 or 1 and the
network learns to live with that.

Axes: G channels of all groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

_MAX_LOGIT = 6.0  # [hat]; where a gate of scale 1 has all but stopped learning
_MAX_EXPONENT = 50.0  # [hat]; beyond it the hyperbolic cosine comes near the end of float32


class ChannelGates(nn.Module):
    """One gate per channel, in groups of which each keeps at least one channel.

    Chosen: logits start uniform between 0 and `largest_start`, since no source says how; all
    channels are open at first, and none is sure to stay so.
    """

    def __init__(
        self,
        group_sizes: Sequence[int],
        max_scale: float,
        largest_start: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self._group_sizes = tuple(group_sizes)
        self._max_scale = max_scale
        start = torch.rand(sum(group_sizes), generator=generator) * largest_start
        self.logits = nn.Parameter(start)  # [G]; e in both papers

    def soft(self, scale: float) -> Tensor:
        """Gates [G] between 0 and 1, with gradients made up for the scale."""
        logits = self.logits.view_as(self.logits)
        if logits.requires_grad:
            factor = compensation(self.logits.detach(), scale, self._max_scale)
            logits.register_hook(lambda gradient: gradient * factor)
        return torch.sigmoid(scale * logits)

    @torch.no_grad()
    def is_open(self) -> Tensor:
        """Which channels stay, bool [G]: those of positive logit, or the largest of its group.

        Chosen: a group without any channel would cut the network in two.
        """
        found = []
        for part in self.logits.split(self._group_sizes):
            is_open = part > 0
            is_open[part.argmax()] = True
            found.append(is_open)
        return torch.cat(found)

    @torch.no_grad()
    def clamp(self) -> None:
        """Keep logits where they can still change; for after every step [hat]."""
        self.logits.clamp_(-_MAX_LOGIT, _MAX_LOGIT)


def annealed_scale(step: int, steps_per_epoch: int, max_scale: float) -> float:
    """From 1 / `max_scale` at the first step of an epoch to `max_scale` at its last [hat].

    Chosen: an epoch of one step has the scale 1, half-way, since it would never learn otherwise.
    """
    if steps_per_epoch == 1:
        return 1.0
    smallest = 1 / max_scale
    share = step % steps_per_epoch / (steps_per_epoch - 1)
    return smallest + (max_scale - smallest) * share


def compensation(logits: Tensor, scale: float, max_scale: float) -> Tensor:
    """What gradients of logits are multiplied by, so that hardly any depends on the scale [hat]."""
    exponent = (scale * logits).clamp(-_MAX_EXPONENT, _MAX_EXPONENT)
    return max_scale / scale * (torch.cosh(exponent) + 1) / (torch.cosh(logits) + 1)
