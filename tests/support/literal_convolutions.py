"""The masked convolutions written out cell by cell: slow, obvious, and sharing weights alone."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from remnant.models.conv_autoencoder import ConvDetail
from remnant.models.masked_convolutions import ConvEncoder, MaskedNorm, Stage

Cells = dict[tuple[int, int], Tensor]  # visible places and their channels; others do not exist


def literal_maps(
    encoder: ConvEncoder, views: Tensor, visible: Tensor, num_stages: int | None = None
) -> list[Cells]:
    """What a network in training makes of each image: visible cells of a map, the last or not."""
    images = [
        _pixels(view, shown, encoder.unit) for view, shown in zip(views, visible, strict=True)
    ]
    images = _normalise(encoder.norm, [_convolve(encoder.conv, cells) for cells in images])
    for stage in encoder.stages[:num_stages]:
        assert isinstance(stage, Stage)
        images = [_pool(_convolve(stage.conv1, cells)) for cells in images]
        images = _normalise(stage.norm1, images)
        images = [_convolve(stage.conv2, cells) for cells in images]
        images = _normalise(stage.norm2, images)
    return images


def literal_detail(branch: ConvDetail, cells: Cells) -> Cells:
    """H of each unit: three linear layers, the first for every cell of the first stage."""
    layers = (branch.first, branch.second, branch.third)
    first, second, third = ((layer.weight[:, :, 0, 0], layer.bias) for layer in layers)
    side, found = branch.side, {}
    for row, column in {(row // side, column // side) for row, column in cells}:
        inside = [(row * side + down, column * side + right) for down in range(side)
                  for right in range(side)]  # fmt: skip
        hidden = torch.stack([_gelu(first[0] @ cells[place] + first[1]) for place in inside])
        # Channel by channel, each with its cells in reading order.
        hidden = _gelu(second[0] @ hidden.T.flatten() + second[1])
        found[row, column] = third[0] @ hidden + third[1]
    return found


def _pixels(view: Tensor, visible: Tensor, unit: int) -> Cells:
    places = [(row, column) for row in range(view.shape[1]) for column in range(view.shape[2])]
    return {
        (row, column): view[:, row, column]
        for row, column in places
        if visible[row // unit, column // unit]
    }


def _convolve(conv: nn.Conv2d, cells: Cells) -> Cells:
    """A sum over the neighbours that exist."""
    found = {}
    for row, column in cells:
        total = torch.zeros(conv.out_channels)
        for down in (-1, 0, 1):
            for right in (-1, 0, 1):
                near = cells.get((row + down, column + right))
                if near is not None:
                    total = total + conv.weight[:, :, down + 1, right + 1] @ near
        found[row, column] = total
    return found


def _pool(cells: Cells) -> Cells:
    found: Cells = {}
    for (row, column), value in cells.items():
        place = (row // 2, column // 2)
        found[place] = torch.maximum(found[place], value) if place in found else value
    return found


def _normalise(norm: MaskedNorm, images: list[Cells]) -> list[Cells]:
    """By mean and deviation over every visible cell of the batch, then GELU."""
    assert norm.masked is not None
    everything = torch.stack([value for cells in images for value in cells.values()])
    mean = everything.mean(dim=0)
    deviation = ((everything - mean) ** 2).mean(dim=0).add(norm.masked.eps).sqrt()
    weight, bias = norm.masked.weight, norm.masked.bias
    return [
        {place: _gelu((value - mean) / deviation * weight + bias) for place, value in one.items()}
        for one in images
    ]


def _gelu(value: Tensor) -> Tensor:
    return value * 0.5 * (1 + torch.erf(value / math.sqrt(2)))
