"""One extractor per task, side by side, under one classifier of all their features.

[der] Yan et al., CVPR 2021.

Axes: B images, D features of all extractors, K classes seen so far, G channels of one extractor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from remnant.models.classifier import LinearClassifier
from remnant.models.prunable_resnet import Extractor
from remnant.models.resnet import ResNet


class ExpandableNetwork(nn.Module):
    """Extractors of which only the newest learns; the others are frozen.

    Args:
        build: Makes the residual network of one more extractor.
    """

    auxiliary: LinearClassifier | None  # of the newest features: all old classes as one, new ones

    def __init__(self, build: Callable[[], ResNet]) -> None:
        super().__init__()
        self._build = build
        self.extractors = nn.ModuleList()
        self.classifier = LinearClassifier(0, bias=False)
        self.auxiliary = None
        self.register_load_state_dict_pre_hook(_take_shapes)

    def all(self) -> list[Extractor]:
        """The extractors, the oldest first."""
        return [one for one in self.extractors.children() if isinstance(one, Extractor)]

    @property
    def newest(self) -> Extractor:
        return self.all()[-1]

    @property
    def width(self) -> int:
        """D."""
        return sum(extractor.width for extractor in self.all())

    def forward(self, views: Tensor) -> Tensor:
        """[B, C, H, W] -> scores [B, K]."""
        return self.classifier(self.features(views))

    def features(self, views: Tensor, gates: Tensor | None = None) -> Tensor:
        """[B, D], the oldest extractor first; `gates` [G] are for the channels of the newest."""
        *old, newest = self.all()
        return torch.cat([*(one(views) for one in old), newest(views, gates)], dim=1)

    # ---------------------------------------------------------------------------------- as it grows

    def grow(self, num_new_classes: int) -> None:
        """Add an extractor, and put a new classifier over everything."""
        num_classes = self.classifier.num_classes + num_new_classes
        if len(self.extractors) > 0:
            self.newest.freeze()  # the others are
        self.extractors.append(Extractor(self._build()))
        self.classifier = _classifier(self.width, num_classes)
        self.auxiliary = None

    def start_from_previous(self) -> None:
        """Give the newest extractor the weights of the one before, where that has the channels."""
        if len(self.extractors) > 1:
            self.newest.start_from(self.all()[-2])

    def moving(self) -> list[nn.Parameter]:
        """What learns in a task: the newest extractor and the heads."""
        heads = [head for head in (self.classifier, self.auxiliary) if head is not None]
        return [weight for part in (self.newest, *heads) for weight in part.parameters()]

    def add_auxiliary(self, num_new_classes: int, generator: torch.Generator) -> None:
        """A classifier by which the newest features learn to separate new classes and old ones."""
        self.auxiliary = _classifier(self.newest.width, num_new_classes + 1, generator)

    @torch.no_grad()
    def restart_heads(self, generator: torch.Generator) -> None:
        """Draw both classifiers again; their parameters stay the same objects."""
        for head in (self.classifier, self.auxiliary):
            if head is not None:
                fresh = _classifier(head.width, head.num_classes, generator)
                head.weight.copy_(fresh.weight)

    def cut_newest(self, is_kept: Tensor) -> None:
        """Remove channels of the newest extractor, bool [G], and the columns that read them."""
        is_kept = is_kept.to(self.classifier.weight.device)
        is_read = self.newest.feature_channels(is_kept)
        is_older = is_read.new_ones(self.width - self.newest.width)
        self.newest.cut(is_kept)
        columns = self.classifier.weight.detach()[:, torch.cat([is_older, is_read])]
        self.classifier = LinearClassifier(self.width, bias=False)
        self.classifier.weight = nn.Parameter(columns.clone())


def _classifier(
    width: int, num_classes: int, generator: torch.Generator | None = None
) -> LinearClassifier:
    classifier = LinearClassifier(width, bias=False)  # [der]
    classifier.grow(num_classes, generator)
    return classifier


def _take_shapes(
    network: ExpandableNetwork, state: dict[str, Any], prefix: str, *_: object
) -> None:
    """Cut extractors as those were of which the state is loaded: data decide their shapes."""
    for index, extractor in enumerate(network.all()):
        is_kept = state.get(f"{prefix}extractors.{index}.is_kept")
        if is_kept is not None and not torch.equal(is_kept.cpu(), extractor.is_kept.cpu()):
            if not extractor.can_cut(is_kept):
                raise RuntimeError(f"extractor {index} cannot be cut so")  # as torch does
            extractor.cut(is_kept)
    if network.classifier.width != network.width:
        network.classifier = _classifier(network.width, network.classifier.num_classes)
