"""Residual networks of which channels can be weighed while they learn, and cut afterwards.

[der] Yan et al., CVPR 2021.

Channels come in groups. A *stream* is what the blocks of one stage read and add to, so whatever is
added to it, by the stem, a block or a shortcut, shares its channels. The *inner* channels of a
block lie between its two convolutions. A vector over all channels has the streams first, then the
inner groups, block by block.

Chosen: [der] does not say where masks sit in a residual network. Here everything that is added to a
stream is weighed once, after its norm, and inner channels after theirs: a channel of weight 0 is 0
everywhere, and can be removed.

Axes: B images, G channels of all groups, D features.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remnant.models.resnet import BasicBlock, ResNet


@dataclass(frozen=True)
class Layer:
    """A convolution with its norm, and the channels between which it stands."""

    conv: nn.Conv2d
    norm: nn.BatchNorm2d | nn.SyncBatchNorm
    source: int | None  # number of the group that it reads; None: the image
    target: int  # of the group that it writes


@dataclass(frozen=True)
class BlockPlace:
    """A block, and the groups that it reads, has inside, and adds to."""

    block: BasicBlock
    source: int
    inner: int
    target: int


class Extractor(nn.Module):
    """A residual network, whole or with some of its channels cut away.

    Loading the state of a cut network into a whole one needs a `cut` to the same channels before.
    """

    is_kept: Tensor  # bool [G]; which channels of the whole network are left

    def __init__(self, network: ResNet) -> None:
        super().__init__()
        self.network = network
        for place in self._places():
            if place.source != place.target and place.block.shortcut is None:
                place.block.shortcut = ChannelMap.padding(place.block)
        streams = [network.conv.out_channels] * len(network.stages)
        inner = []
        for place in self._places():
            streams[place.target] = place.block.conv2.out_channels
            inner.append(place.block.conv1.out_channels)
        self.group_sizes = (*streams, *inner)
        self.register_buffer("is_kept", torch.ones(sum(self.group_sizes), dtype=torch.bool))
        self.is_frozen = False

    @property
    def width(self) -> int:
        return self.network.width

    def forward(self, views: Tensor, gates: Tensor | None = None) -> Tensor:
        """[B, C, H, W] -> features [B, D]; with `gates` [G] every channel is multiplied by its."""
        if gates is None:
            return self.network(views)
        return self._gated(views, [gate.view(-1, 1, 1) for gate in gates.split(self.group_sizes)])

    def _gated(self, views: Tensor, gates: Sequence[Tensor]) -> Tensor:
        network = self.network
        views = views.contiguous(memory_format=torch.channels_last)
        current = F.relu(network.norm(network.conv(views)) * gates[0])
        if network.has_pooling:
            current = F.max_pool2d(current, 3, 2, 1)
        for place in self._places():
            block = place.block
            inner = F.relu(block.norm1(block.conv1(current))) * gates[place.inner]
            added = block.norm2(block.conv2(inner)) * gates[place.target]
            if block.shortcut is not None:  # another stream, so it has not been weighed yet
                current = block.shortcut(current) * gates[place.target]
            current = block.activate(added + current)
        return current.mean(dim=(2, 3))

    def train(self, mode: bool = True) -> Extractor:
        """Frozen, it stays in evaluation mode."""
        super().train(mode and not self.is_frozen)
        return self

    def freeze(self) -> None:
        """Never change again, batch statistics included, whatever the mode."""
        self.is_frozen = True
        self.eval().requires_grad_(False)
        for layer in self.layers():
            # In evaluation mode they are still used, but processes do not average them:
            # the mean of equal numbers can differ from them by rounding.
            layer.norm.track_running_stats = False

    # -------------------------------------------------------------------------------- its structure

    def _places(self) -> Iterator[BlockPlace]:
        inner = len(self.network.stages)
        for stream, stage in enumerate(self.network.stages):
            for index, block in enumerate(stage.children()):
                assert isinstance(block, BasicBlock), "stages are made of blocks"
                source = max(0, stream - 1) if index == 0 else stream
                yield BlockPlace(block, source, inner, stream)
                inner += 1

    def layers(self) -> Iterator[Layer]:
        """All convolutions, in a fixed order."""
        yield Layer(self.network.conv, self.network.norm, None, 0)
        for place in self._places():
            block = place.block
            yield Layer(block.conv1, block.norm1, place.source, place.inner)
            yield Layer(block.conv2, block.norm2, place.inner, place.target)
            if isinstance(block.shortcut, nn.Sequential):
                conv, norm = block.shortcut
                assert isinstance(conv, nn.Conv2d), "a projection begins with a convolution"
                assert isinstance(norm, nn.BatchNorm2d | nn.SyncBatchNorm), "and ends with a norm"
                yield Layer(conv, norm, place.source, place.target)

    def feature_channels(self, channels: Tensor) -> Tensor:
        """The part of a vector over all channels [G] that is about the features."""
        return channels.split(self.group_sizes)[len(self.network.stages) - 1]

    def used_ratio(self, gates: Tensor) -> Tensor:
        """The share of the convolutions' weights in use, each weighed by the gates at its ends."""
        sums = [gate.sum() for gate in gates.split(self.group_sizes)]
        used, total = gates.new_zeros(()), 0
        for layer in self.layers():
            area = math.prod(layer.conv.kernel_size)
            source = layer.conv.in_channels if layer.source is None else sums[layer.source]
            used = used + area * source * sums[layer.target]  # [der] sparsity loss
            total += layer.conv.weight.numel()
        return used / total

    def channel_scales(self) -> Tensor:
        """For every channel the sum of the absolute scales of the norms that write it: [G].

        Not of the filters before these norms, whose size a norm cancels.
        """
        scales = [self.network.conv.weight.new_zeros(size) for size in self.group_sizes]
        for layer in self.layers():
            scales[layer.target] += layer.norm.weight.detach().abs()
        return torch.cat(scales)

    def strongest(self, cut_ratio: float) -> Tensor:
        """Which channels stay, bool [G], when that share of each group goes, smallest scale first.

        What goes is rounded down, so that each group keeps some.
        """
        found = []
        for scales in self.channel_scales().split(self.group_sizes):
            num_cut = int(len(scales) * Decimal(str(cut_ratio)))  # 0.7 of 10 are 7, not 6
            is_kept = torch.ones_like(scales, dtype=torch.bool)
            is_kept[scales.argsort(stable=True)[:num_cut]] = False
            found.append(is_kept)
        return torch.cat(found)

    # ----------------------------------------------------------------------------- cutting, growing

    def can_cut(self, is_kept: Tensor) -> bool:
        """Whether a vector says of every channel if it is kept, and leaves each group some."""
        is_fitting = is_kept.dtype == torch.bool and is_kept.shape == self.is_kept.shape
        is_whole = bool(self.is_kept.all())
        return is_fitting and is_whole and all(map(len, self._split_places(is_kept.cpu())))

    def cut(self, is_kept: Tensor) -> None:
        """Remove every channel that is not in `is_kept`, bool [G], which leaves each group some.

        Computes what gates of 0 and 1 would. The parameters are new objects afterwards.
        """
        assert bool(self.is_kept.all()), "a network is cut once"
        kept = self._split_places(is_kept.to(self.is_kept.device))
        assert all(len(places) for places in kept), "every group keeps a channel"
        for layer in self.layers():
            _cut_layer(layer, None if layer.source is None else kept[layer.source], kept)
        for place in self._places():
            if isinstance(place.block.shortcut, ChannelMap):
                place.block.shortcut.cut(kept[place.source], kept[place.target])
        self.network.width = len(kept[len(self.network.stages) - 1])
        self.is_kept.copy_(is_kept)

    @torch.no_grad()
    def start_from(self, other: Extractor) -> None:
        """Take over another's weights, for the channels that it has; this one must be whole."""
        kept = other._split_places(other.is_kept.cpu())
        for mine, theirs in zip(self.layers(), other.layers(), strict=True):
            rows = kept[mine.target]
            columns = slice(None) if mine.source is None else kept[mine.source]
            part = mine.conv.weight[rows]
            part[:, columns] = theirs.conv.weight.to(part)
            mine.conv.weight[rows] = part
            for name, values in theirs.norm.state_dict().items():
                own = getattr(mine.norm, name)
                own[rows if values.ndim else ...] = values.to(own)

    def _split_places(self, wanted: Tensor) -> list[Tensor]:
        """Of every group the numbers of its channels in `wanted`, bool [G]."""
        return [torch.nonzero(part).flatten() for part in wanted.split(self.group_sizes)]


class ChannelMap(nn.Module):
    """The shortcut without weights between two streams: subsample, and leave new channels at 0."""

    sources: Tensor  # int64; for each output its input, or the number of inputs where it stays 0

    def __init__(self, sources: Tensor, stride: int) -> None:
        super().__init__()
        self.register_buffer("sources", sources, persistent=False)
        self.stride = stride

    @classmethod
    def padding(cls, block: BasicBlock) -> ChannelMap:
        """What a block without projection does: as many zeros before as behind."""
        num_inputs, num_outputs = block.conv1.in_channels, block.conv2.out_channels
        before = (num_outputs - num_inputs) // 2
        sources = torch.full((num_outputs,), num_inputs)
        sources[before : before + num_inputs] = torch.arange(num_inputs)
        return cls(sources, block.stride)

    def forward(self, maps: Tensor) -> Tensor:
        maps = maps[:, :, :: self.stride, :: self.stride]
        return F.pad(maps, (0, 0, 0, 0, 0, 1)).index_select(1, self.sources)

    def cut(self, inputs: Tensor, outputs: Tensor) -> None:
        """Keep some inputs and outputs, by number; an output whose input is gone stays 0."""
        places = torch.full((int(self.sources.max()) + 1,), len(inputs), device=inputs.device)
        places[inputs] = torch.arange(len(inputs), device=inputs.device)
        self.sources = places[self.sources[outputs]]


def _cut_layer(layer: Layer, columns: Tensor | None, kept: Sequence[Tensor]) -> None:
    conv, norm, rows = layer.conv, layer.norm, kept[layer.target]
    weight = conv.weight.detach()[rows]
    if columns is not None:
        weight = weight[:, columns]
    conv.weight = nn.Parameter(weight.clone(), requires_grad=conv.weight.requires_grad)
    conv.out_channels, conv.in_channels = weight.shape[:2]
    for name, values in norm.named_parameters():
        cut = values.detach()[rows].clone()
        setattr(norm, name, nn.Parameter(cut, requires_grad=values.requires_grad))
    assert norm.running_mean is not None, "norms of backbones track statistics"
    assert norm.running_var is not None, "norms of backbones track statistics"
    norm.running_mean, norm.running_var = norm.running_mean[rows], norm.running_var[rows]
    norm.num_features = len(rows)
