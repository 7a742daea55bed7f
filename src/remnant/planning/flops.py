"""The arithmetic of a method, per image.

FLOPs count 2 per multiply-add of every convolution and matrix product, attention included.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from remnant.methods import Method, TellsRows
from remnant.phases import Batch
from remnant.planning.row_kinds import kinds_of_rows
from remnant.planning.shape_flops import ShapeFlops

_COUNTED_IMAGES = 4


def count_flops(work: Callable[[], object]) -> int:
    """All arithmetic that `work` does with tensors."""
    with ShapeFlops() as counted:
        work()
    return counted.flops


def predict_flops(method: Method, image_shape: tuple[int, int, int]) -> int:
    """Arithmetic of one prediction, per image."""
    device = next(method.parameters()).device
    views = torch.zeros(_COUNTED_IMAGES, *_channels_first(image_shape), device=device)
    was_training = method.training
    method.eval()
    with torch.no_grad():
        flops = count_flops(lambda: method.predict(views))
    method.train(was_training)
    return flops // _COUNTED_IMAGES


def train_flops(method: Method, image_shape: tuple[int, int, int], num_classes: int) -> int:
    """Arithmetic of one training step, per image: forward and backward of every loss term."""
    batch = batch_of_noise(_COUNTED_IMAGES, image_shape, num_classes)
    method.train()
    return round(mean_over_kinds(method, batch, lambda rows: step_flops(method, rows)))


def step_flops(method: Method, batch: Batch) -> int:
    """Arithmetic of one training step."""

    def step() -> None:
        torch.stack([term.float() for term in method.loss(batch).values()]).sum().backward()

    flops = count_flops(step)
    method.zero_grad(set_to_none=True)
    return flops


def mean_over_kinds(method: Method, batch: Batch, measure: Callable[[Batch], float]) -> float:
    """What `measure` finds of some rows, per row, by how often rows are of which kind."""
    if not isinstance(method, TellsRows):
        return measure(batch) / len(batch.labels)
    kinds = kinds_of_rows(method, batch)
    return sum(share * measure(rows) / len(rows.labels) for share, rows in kinds)


def batch_of_noise(size: int, image_shape: tuple[int, int, int], num_classes: int) -> Batch:
    """A batch of the right shapes, for counting and timing.

    Single draws are spread evenly, so that a loss which treats a share of its images in another
    way does so with that share of the batch.
    """
    rng = torch.Generator().manual_seed(0)

    def draw(_: str, *shape: int) -> Tensor:
        if not shape:
            return (torch.arange(size) + 0.5) / size
        return torch.rand(size, *shape, generator=rng)

    return Batch(
        views=torch.randn(size, *_channels_first(image_shape), generator=rng),
        labels=torch.arange(size) % num_classes,
        is_replay=torch.zeros(size, dtype=torch.bool),
        is_known=None,
        ids=torch.arange(size),
        step=0,
        num_steps=1,
        draw=draw,
    )


def _channels_first(image_shape: tuple[int, int, int]) -> tuple[int, int, int]:
    height, width, channels = image_shape
    return channels, height, width
