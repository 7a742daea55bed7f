"""Networks and optimisers as arrays, and back, for checkpoints.

What is read may have a right checksum and be nonsense all the same, so it is compared with the
network before it is used.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

from remnant.errors import InputError
from remnant.training.optimizers import load_optimizer_tensors, optimizer_tensors

Arrays = dict[str, np.ndarray]
_MODEL = "model/"
_CUT = ".is_kept"  # ends the name of what says which channels of a network are left


def method_state(method: nn.Module) -> Arrays:
    """The network as arrays, named `model/...`."""
    return {
        f"{_MODEL}{name}": tensor.detach().cpu().numpy()
        for name, tensor in method.state_dict().items()
    }


def load_method_state(
    method: nn.Module, arrays: Mapping[str, np.ndarray], source: str = "the checkpoint"
) -> None:
    """The inverse of `method_state`, for a network of the same shape.

    Raises:
        InputError: Names, types or shapes do not fit, or a number is not finite; the message
            begins with `source`.
    """
    problem = explain_misfit(method, arrays) or _explain_infinite(method, arrays)
    if problem is None:
        tensors = {
            name.removeprefix(_MODEL): torch.from_numpy(np.array(array))
            for name, array in arrays.items()
            if name.startswith(_MODEL)
        }
        try:
            method.load_state_dict(tensors)
        except RuntimeError:  # torch's error for weights of other shapes
            problem = "shapes of arrays contradict one another."
    if problem is not None:
        raise InputError(
            f"{source} holds weights that do not fit its settings: {problem} Restore it from a "
            "copy."
        )


def explain_misfit(method: nn.Module, arrays: Mapping[str, np.ndarray]) -> str | None:
    """How arrays differ from those of a network, as a sentence; only shapes and types are read."""
    expected = {f"{_MODEL}{name}": tensor for name, tensor in method.state_dict().items()}
    found = {name for name in arrays if name.startswith(_MODEL)}
    if different := sorted(found ^ set(expected)):
        return f"{different[0]} is {'missing' if different[0] in expected else 'superfluous'}."
    # Channels may have been cut away, which the arrays themselves say.
    is_cut = any(name.endswith(_CUT) for name in expected)
    for name, tensor in expected.items():
        array, shape = arrays[name], tuple(tensor.shape)
        if array.dtype.name != str(tensor.dtype).removeprefix("torch."):
            return f"{name} must be of {tensor.dtype}; it is of {array.dtype}."
        is_smaller = len(shape) == array.ndim and all(map(int.__le__, array.shape, shape))
        if array.shape != shape and not (is_cut and is_smaller):
            return f"{name} must have shape {list(shape)}; it has {list(array.shape)}."
    return None


def _explain_infinite(method: nn.Module, arrays: Mapping[str, np.ndarray]) -> str | None:
    """Which array has a number that is not finite, as a sentence."""
    infinite = {f"{_MODEL}{name}" for name in getattr(method, "may_be_infinite", ())}
    for name, array in arrays.items():
        if array.dtype.kind != "f" or np.isfinite(array).all():
            continue
        if name not in infinite or np.isnan(array).any():
            return f"{name} holds numbers that are not finite."
    return None


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
    """The inverse of `training_state`; tensors go to the devices of the parameters.

    Raises:
        InputError: They do not fit the network or its optimisers.
    """
    load_method_state(method, arrays)
    for index, optimizer in enumerate(optimizers):
        prefix = f"optimizer/{index}/"
        tensors = {
            name.removeprefix(prefix): torch.from_numpy(np.array(array))
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        load_optimizer_tensors(optimizer, tensors)
