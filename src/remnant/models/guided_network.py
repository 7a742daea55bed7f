"""Extractors that grow with the tasks, guided by one network that knows no task.

[tagfex] Zheng et al., CVPR 2025.

Axes: B images, D features of all extractors, W features of one, N positions of its last map,
K classes seen so far.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from remnant.models.classifier import LinearClassifier
from remnant.models.precision import attend
from remnant.models.prunable_resnet import Extractor
from remnant.models.resnet import ResNet


class GrowingNetwork(nn.Module):
    """One extractor per task, of which only the newest learns, under a classifier that widens.

    Args:
        build: Makes the residual network of one more extractor.
    """

    def __init__(self, build: Callable[[], ResNet]) -> None:
        super().__init__()
        self._build = build
        self.extractors = nn.ModuleList()
        self.classifier = LinearClassifier(0)

    def all(self) -> list[Extractor]:
        """The extractors, the oldest first."""
        return [one for one in self.extractors.children() if isinstance(one, Extractor)]

    @property
    def newest(self) -> Extractor:
        return self.all()[-1]

    def maps(self, views: Tensor) -> tuple[Tensor, Tensor]:
        """Features [B, D], the oldest extractor first; the last map of the newest, [B, N, W]."""
        *old, newest = self.all()
        with torch.no_grad():
            features = [one(views) for one in old]
        positions = last_positions(newest.network, views)
        return torch.cat([*features, positions.mean(dim=1)], dim=1), positions

    def grow(self, num_new_classes: int) -> None:
        """Add an extractor; the rows of old classes keep their weights and read nothing of it."""
        if len(self.extractors) > 0:
            self.newest.freeze()
        self.extractors.append(Extractor(self._build()))
        wider = LinearClassifier(sum(one.width for one in self.all()))
        wider.grow(self.classifier.num_classes + num_new_classes)
        old = self.classifier
        assert wider.bias is not None, "classifiers here have biases"
        assert old.bias is not None, "classifiers here have biases"
        with torch.no_grad():
            wider.weight[: old.num_classes] = 0
            wider.weight[: old.num_classes, : old.width] = old.weight
            wider.bias[: old.num_classes] = old.bias
        self.classifier = wider.to(old.weight)

    @torch.no_grad()
    def start_between(self, guide: ResNet, share: float) -> None:
        """Weights of the newest extractor: `share` of the one before and the rest of the guide."""
        *_, before, newest = self.all()
        weights = (newest.network, before.network, guide)
        for new, old, other in zip(*(one.parameters() for one in weights), strict=True):
            new.copy_(share * old + (1 - share) * other)


class Guide(nn.Module):
    """A network that learns to tell images apart without labels, and goes on over all tasks."""

    def __init__(self, network: ResNet, hidden_width: int, width: int) -> None:
        super().__init__()
        self.network = network
        self.projector = nn.Sequential(
            nn.Linear(network.width, hidden_width), nn.ReLU(), nn.Linear(hidden_width, width)
        )
        # From features of now to those that the network had before the task.
        self.predictor = nn.Linear(network.width, network.width)


class MergeAttention(nn.Module):
    """New features that look at those of the guide and at themselves: [B, N, W] twice -> [B, W]."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.norm = nn.LayerNorm(width)
        self.guide_norm = nn.LayerNorm(width)
        names = ("query", "key", "value", "guide_key", "guide_value")
        self.weights = nn.ParameterDict({name: torch.empty(width, width) for name in names})
        for weight in self.weights.values():
            nn.init.xavier_normal_(weight)

    def forward(self, positions: Tensor, guide_positions: Tensor) -> Tensor:
        own, other = self.norm(positions), self.guide_norm(guide_positions)
        keys = [other @ self.weights["guide_key"], own @ self.weights["key"]]
        values = [other @ self.weights["guide_value"], own @ self.weights["value"]]
        merged = attend(
            self._heads(own @ self.weights["query"]),
            self._heads(torch.cat(keys, dim=1)),
            self._heads(torch.cat(values, dim=1)),
        )  # [B, heads, N, W / heads]
        return merged.transpose(1, 2).flatten(2).mean(dim=1)

    def _heads(self, inputs: Tensor) -> Tensor:
        """[B, N, W] -> [B, heads, N, W / heads]."""
        return inputs.unflatten(2, (self.num_heads, -1)).transpose(1, 2)


def last_positions(network: ResNet, views: Tensor) -> Tensor:
    """The last map of a network as a row of positions, [B, N, W]; their mean is its features."""
    views = views.contiguous(memory_format=torch.channels_last)
    return network.maps(views)[-1].flatten(2).transpose(1, 2)
