"""A linear correction of the scores of new classes.

[bic] Wu et al., CVPR 2019.

Axes: B images, K classes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BiasCorrection(nn.Module):
    """beta * score + gamma for the new classes, nothing for the others: two numbers in all."""

    def __init__(self) -> None:
        super().__init__()
        self.beta = nn.Parameter(torch.ones(()))
        self.gamma = nn.Parameter(torch.zeros(()))
        self.first = 0  # of the new classes; those after it are new too

    @torch.no_grad()
    def restart(self, first: int) -> None:
        """Correct nothing, and from now on the classes from `first` on."""
        self.beta.fill_(1)
        self.gamma.fill_(0)
        self.first = first

    def forward(self, scores: Tensor) -> Tensor:
        """[B, K] -> [B, K]."""
        old, new = scores[:, : self.first], scores[:, self.first :]
        return torch.cat([old, self.beta * new + self.gamma], dim=1)
