"""A generator of feature vectors by class, and a critic that tells them from real ones.

[gfr] Liu et al., CVPR workshops 2020. [wgan-gp] Gulrajani et al., NeurIPS 2017.

Each class has a row of its own in both, so that they grow with the classes. In the generator that
is the same as a one-hot vector beside the noise; in the critic it is a projection.

Axes: B vectors, Z noise, H hidden units, D features, K classes seen so far.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_SLOPE = 0.2  # of leaky rectifiers, below 0 [gfr]
_DEVIATION = 0.02  # of first weights [gfr]


class FeatureGenerator(nn.Module):
    """Noise and a class -> a feature vector.

    Args:
        is_positive: Features end with a ReLU, as those of a network with a last ReLU do.
    """

    def __init__(self, width: int, num_noise: int, num_hidden: int, is_positive: bool) -> None:
        super().__init__()
        self.num_noise = num_noise
        self.is_positive = is_positive
        self.first = nn.Linear(num_noise, num_hidden)
        self.rows = nn.Parameter(torch.empty(0, num_hidden))  # [K, H]
        self.second = nn.Linear(num_hidden, num_hidden)
        self.last = nn.Linear(num_hidden, width)
        _initialise(self)

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        """[B, Z], int64 [B] -> [B, D]."""
        hidden = F.leaky_relu(self.first(noise) + self.rows[labels], _SLOPE)
        features = self.last(F.leaky_relu(self.second(hidden), _SLOPE))
        return F.relu(features) if self.is_positive else features

    def grow(self, num_new_classes: int) -> None:
        self.rows = _with_rows(self.rows, num_new_classes)


class FeatureCritic(nn.Module):
    """A feature vector and its class -> how real it looks."""

    def __init__(self, width: int, num_hidden: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, num_hidden)
        self.second = nn.Linear(num_hidden, num_hidden)
        self.last = nn.Linear(num_hidden, 1)
        self.rows = nn.Parameter(torch.empty(0, num_hidden))  # [K, H]
        _initialise(self)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """[B, D], int64 [B] -> [B]."""
        hidden = F.leaky_relu(self.first(features), _SLOPE)
        hidden = F.leaky_relu(self.second(hidden), _SLOPE)
        return self.last(hidden)[:, 0] + (self.rows[labels] * hidden).sum(dim=1)

    def grow(self, num_new_classes: int) -> None:
        self.rows = _with_rows(self.rows, num_new_classes)


def _initialise(network: nn.Module) -> None:
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=_DEVIATION)
            nn.init.zeros_(module.bias)


def _with_rows(rows: nn.Parameter, num_new: int) -> nn.Parameter:
    """Old rows keep every bit; new ones are drawn."""
    drawn = torch.empty(num_new, rows.shape[1]).normal_(std=_DEVIATION)
    return nn.Parameter(torch.cat([rows.detach(), drawn.to(rows)]))
