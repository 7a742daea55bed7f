"""The arithmetic of a method, per image.

FLOPs count 2 per multiply-add of every convolution and matrix product, attention included.
"""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from remnant.contracts import Batch
from remnant.methods import Method

_COUNTED_IMAGES = 2


def predict_flops(method: Method, image_shape: tuple[int, int, int]) -> int:
    """Arithmetic of one prediction, per image."""
    device = next(method.parameters()).device
    views = torch.zeros(_COUNTED_IMAGES, *_channels_first(image_shape), device=device)
    was_training = method.training
    method.eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        method.predict(views)
    method.train(was_training)
    return counter.get_total_flops() // _COUNTED_IMAGES


def train_flops(method: Method, image_shape: tuple[int, int, int], num_classes: int) -> int:
    """Arithmetic of one training step, per image: forward and backward of every loss term."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(_COUNTED_IMAGES) % num_classes
    batch = Batch(
        views=torch.zeros(_COUNTED_IMAGES, *_channels_first(image_shape)),
        labels=labels,
        is_replay=torch.zeros(_COUNTED_IMAGES, dtype=torch.bool),
        is_known=None,
        ids=torch.arange(_COUNTED_IMAGES),
        step=0,
        num_steps=1,
        draw=lambda _, *shape: torch.rand(_COUNTED_IMAGES, *shape, generator=generator),
    )
    method.train()
    with FlopCounterMode(display=False) as counter:
        torch.stack([term.float() for term in method.loss(batch).values()]).sum().backward()
    method.zero_grad(set_to_none=True)
    return counter.get_total_flops() // _COUNTED_IMAGES


def _channels_first(image_shape: tuple[int, int, int]) -> tuple[int, int, int]:
    height, width, channels = image_shape
    return channels, height, width
