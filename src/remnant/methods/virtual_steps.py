"""Steps of descent that are taken on paper: a network's outputs as if it had learned from inputs.

What comes out can be differentiated with regard to these inputs, through the steps (a meta step).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call


def after_steps(
    network: nn.Module,
    loss: Callable[[Tensor], Tensor],
    inputs: Tensor,
    lr: float,
    num_steps: int = 1,
) -> Callable[[Tensor], Tensor]:
    """The network after some steps of plain gradient descent on a loss of its outputs.

    The network itself keeps every bit. It should be in evaluation mode: batch statistics are taken
    as they are.
    """
    weights = {
        name: parameter.detach().requires_grad_() for name, parameter in network.named_parameters()
    }
    for _ in range(num_steps):
        value = loss(functional_call(network, weights, (inputs,)))
        gradients = torch.autograd.grad(
            value, list(weights.values()), create_graph=True, allow_unused=True
        )
        weights = {
            name: weight if gradient is None else weight - lr * gradient
            for (name, weight), gradient in zip(weights.items(), gradients, strict=True)
        }
    return lambda views: functional_call(network, weights, (views,))
