"""What a method asks of a network that sees images in part: encode, classify, draw.

Axes: B images, C channels, H height, W width, F patches, V visible patches, D width, K classes.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn

from remnant.models.classifier import LinearClassifier
from remnant.models.frequency import HighPass
from remnant.models.masked_autoencoder import choose_visible


@dataclass(frozen=True)
class Encoded:
    """What an encoder makes of the visible patches of some images."""

    main: Tensor  # tokens [B, V+1, D] of a transformer, maps [B, D, GH, GW] of convolutions
    detail: Tensor | None  # the same by the detail branch, where there is one
    visible_ids: Tensor | None  # int64 [B, V]; None: every patch

    def select(self, rows: Tensor) -> Encoded:
        """Some of the images."""
        detail = None if self.detail is None else self.detail[rows]
        visible_ids = None if self.visible_ids is None else self.visible_ids[rows]
        return Encoded(self.main[rows], detail, visible_ids)

    def detach(self) -> Encoded:
        """The same without a gradient."""
        detail = None if self.detail is None else self.detail.detach()
        return Encoded(self.main.detach(), detail, self.visible_ids)


class MaskedNetwork(nn.Module):
    """A masked autoencoder with a classifier that grows; hidden pixels are never read.

    The equations are those of [bimae], Zhai et al., ICCV 2023; see docs/methods/bimae.md.
    """

    num_patches: int  # F
    has_detail_branch: bool
    classifier: LinearClassifier
    decoder: nn.Module | None  # None: nothing will be drawn
    frequency: HighPass | None  # M; None: without a detail branch there may be none

    @abstractmethod
    def encode(self, views: Tensor, visible_ids: Tensor | None) -> Encoded:
        """Views [B, C, H, W] through the patches `visible_ids` [B, V]; None shows all."""

    @abstractmethod
    def pool(self, encoded: Encoded) -> Tensor:
        """One vector [B, D] per image."""

    @abstractmethod
    def draw(self, encoded: Encoded) -> Tensor:
        """x' [B, C, H, W], as the main branch completes the views."""

    @abstractmethod
    def draw_both(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        """D of the main and of the detail branch in one pass: two times [B, C, H, W]."""

    @abstractmethod
    def redraw(self, views: Tensor, visible_ids: Tensor) -> Tensor:
        """Views [B, C, H, W] from their visible patches, by the main branch alone."""

    def complete(self, views: Tensor, visible_ids: Tensor) -> Tensor:
        """x_hat [B, C, H, W] from the visible patches; the other pixels are never read."""
        encoded = self.encode(views, visible_ids)
        if encoded.detail is None:
            return self.draw(encoded)
        coarse, fine = self.draw_both(encoded)
        return coarse + self.inverse(self.high_pass(fine))  # [bimae] E4, E5

    def high_pass(self, views: Tensor) -> Tensor:
        """M: views [B, C, H, W] -> complex spectrum, as many coefficients as pixels."""
        assert self.frequency is not None, "this network was made without a detail branch"
        return self.frequency(views)

    def inverse(self, spectrum: Tensor) -> Tensor:
        """Real part of the inverse transform: a spectrum of `high_pass` -> views [B, C, H, W]."""
        assert self.frequency is not None, "this network was made without a detail branch"
        return self.frequency.inverse(spectrum)

    def visible_ids(self, noise: Tensor, mask_ratio: float) -> Tensor:
        """Ascending ids [B, V] of the patches that uniform `noise` [B, F] leaves visible."""
        assert noise.shape[1] == self.num_patches, "noise needs one number per patch"
        return choose_visible(noise, mask_ratio)

    def classify(self, features: Tensor) -> Tensor:
        """G(z): [B, D] -> scores [B, K]."""
        return self.classifier(features)

    def masked_scores(self, views: Tensor, visible_ids: Tensor | None) -> Tensor:
        """Scores [B, K] of images seen in part."""
        return self.classify(self.pool(self.encode(views, visible_ids)))

    def features(self, views: Tensor) -> Tensor:
        """z [B, D] of whole images: one encoder pass, no decoder."""
        return self.pool(self.encode(views, None))

    def scores(self, views: Tensor) -> Tensor:
        """G(z) [B, K] of whole images."""
        return self.classify(self.features(views))

    def forward(self, views: Tensor) -> Tensor:
        return self.scores(views)
