"""Activations that learn: quotients of polynomials, which begin close to a ReLU.

[pade] Molina et al., ICLR 2020. [cim] Luo et al., CVPR 2023.

x -> P(x) / (1 + |b_1 x| + ... + |b_4 x^4|) with P of degree 5: no pole, whatever is learned.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

# Fitted to a leaky ReLU of slope 0.01 between -3 and 3 [pade].
_ABOVE = (0.02996348, 0.61690165, 2.37539147, 3.06608078, 1.52474449, 0.25281987)
_BELOW = (1.19160814, 4.40811795, 0.91111034, 0.34885983)


class Rational(nn.Module):
    """One activation for all units of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.above = nn.Parameter(torch.tensor(_ABOVE))  # a_0 to a_5
        self.below = nn.Parameter(torch.tensor(_BELOW))  # b_1 to b_4

    def forward(self, inputs: Tensor) -> Tensor:
        top, bottom = self.above[0], torch.ones_like(inputs)
        power = torch.ones_like(inputs)
        for degree in range(1, len(self.above)):
            power = power * inputs
            top = top + self.above[degree] * power
            if degree <= len(self.below):
                bottom = bottom + (self.below[degree - 1] * power).abs()
        return top / bottom
