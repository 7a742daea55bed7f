"""Networks and optimisers as arrays, and back, for checkpoints."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

from remnant.training.optimizers import load_optimizer_tensors, optimizer_tensors

Arrays = dict[str, np.ndarray]


def method_state(method: nn.Module) -> Arrays:
    """The network as arrays, named `model/...`."""
    return {
        f"model/{name}": tensor.detach().cpu().numpy()
        for name, tensor in method.state_dict().items()
    }


def load_method_state(method: nn.Module, arrays: Mapping[str, np.ndarray]) -> None:
    """The inverse of `method_state`, for a network of the same shape."""
    tensors = {
        name.removeprefix("model/"): torch.from_numpy(np.array(array))
        for name, array in arrays.items()
        if name.startswith("model/")
    }
    method.load_state_dict(tensors)


def training_state(method: nn.Module, optimizers: list[torch.optim.Optimizer]) -> Arrays:
    """Network and optimisers as arrays."""
    arrays = method_state(method)
    for index, optimizer in enumerate(optimizers):
        for name, tensor in optimizer_tensors(optimizer).items():
            arrays[f"optimizer/{index}/{name}"] = tensor.detach().cpu().numpy()
    return arrays


def load_training_state(
    method: nn.Module,
    optimizers: list[torch.optim.Optimizer],
    arrays: Mapping[str, np.ndarray],
) -> None:
    """The inverse of `training_state`; tensors go to the devices of the parameters."""
    load_method_state(method, arrays)
    for index, optimizer in enumerate(optimizers):
        prefix = f"optimizer/{index}/"
        tensors = {
            name.removeprefix(prefix): torch.from_numpy(np.array(array))
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        load_optimizer_tensors(optimizer, tensors)
