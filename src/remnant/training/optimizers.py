"""Optimisers from configs, learning-rate schedules, and optimiser state as tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from remnant.errors import InputError
from remnant.phases import OptimizerConfig


def build_optimizer(
    config: OptimizerConfig, parameters: Sequence[nn.Parameter], *, is_fused: bool = False
) -> torch.optim.Optimizer:
    """A new optimiser; vectors (norms and biases) can be exempt from weight decay.

    A fused one updates all parameters in one pass over memory instead of one pass per operation.
    """
    groups = [{"params": list(parameters), "weight_decay": config.weight_decay}]
    if not config.decay_norms_and_biases:
        matrices = [parameter for parameter in parameters if parameter.ndim > 1]
        vectors = [parameter for parameter in parameters if parameter.ndim <= 1]
        groups = [
            {"params": matrices, "weight_decay": config.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
    options = {"fused": is_fused, "foreach": not is_fused}
    if config.name == "sgd":
        return torch.optim.SGD(
            groups, config.lr, config.momentum, nesterov=config.nesterov, **options
        )
    kind = torch.optim.Adam if config.name == "adam" else torch.optim.AdamW
    return kind(groups, lr=config.lr, betas=config.betas, **options)


def learning_rate(
    config: OptimizerConfig, step: int, steps_per_epoch: int, num_steps: int
) -> float:
    """The learning rate of a step: linear warm-up, then constant, cosine or milestones."""
    warmup = config.warmup_epochs * steps_per_epoch
    if step < warmup:
        rise = (config.lr - config.warmup_lr) * (step + 1) / (warmup + 1)
        return config.warmup_lr + rise
    if config.schedule == "cosine":
        progress = (step - warmup) / max(1.0, num_steps - warmup)
        return config.min_lr + (config.lr - config.min_lr) * 0.5 * (
            1 + math.cos(math.pi * progress)
        )
    if config.schedule == "steps":
        epoch = step / steps_per_epoch
        return config.lr * config.gamma ** sum(
            epoch >= milestone for milestone in config.milestones
        )
    return config.lr


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def clip_gradients(config: OptimizerConfig, parameters: Sequence[nn.Parameter]) -> None:
    if config.clip_value is not None:
        nn.utils.clip_grad_value_(parameters, config.clip_value)
    if config.clip_norm is not None:
        nn.utils.clip_grad_norm_(parameters, config.clip_norm)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of an optimiser, named `<parameter index>/<quantity>`."""
    state = optimizer.state_dict()["state"]
    return {
        f"{index}/{name}": torch.as_tensor(value)
        for index, entry in state.items()
        for name, value in entry.items()
        if value is not None
    }


def load_optimizer_tensors(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """The inverse of `optimizer_tensors`.

    Raises:
        InputError: They are not those of this optimiser.
    """
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, _, name = key.partition("/")
        is_known = index.isdecimal() and int(index) < len(parameters)
        if not is_known or value.shape not in (parameters[int(index)].shape, torch.Size()):
            raise InputError(
                f"the checkpoint holds optimiser state that does not fit its network: {key}. "
                "Restore it from a copy."
            )
        state.setdefault(int(index), {})[name] = value
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
