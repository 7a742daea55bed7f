"""A pretrained network as a part of a method: frozen, one image at a time.

Axes: B images, C channels, H height, W width, D features.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from remnant.encoders.encoder_config import EncoderConfig
from remnant.encoders.onnx_network import ONNXNetwork
from remnant.models.efficientnet_lite import EfficientNetLite0
from remnant.models.pretrained_vit import PretrainedViT

Network = EfficientNetLite0 | PretrainedViT | ONNXNetwork


class FrozenEncoder(nn.Module):
    """Views [B, C, H, W] -> features [B, D].

    Each image goes through alone, so that its features do not depend on which images it came with:
    a classifier is then the same whether its images come in one update or in ten. On a processor
    this is also faster than batches.
    """

    gain: Tensor
    shift: Tensor

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.network = build_network(config)
        # From how views are normalised to how the encoder wants them.
        self.register_buffer("gain", torch.ones(3, 1, 1))
        self.register_buffer("shift", torch.zeros(3, 1, 1))
        self.requires_grad_(False)

    @property
    def width(self) -> int:
        return self.network.width

    def train(self, mode: bool = True) -> FrozenEncoder:
        """Always in evaluation mode: the statistics of its norms stay."""
        return super().train(False)

    def forward(self, views: Tensor) -> Tensor:
        views = views.expand(-1, 3, -1, -1) * self.gain + self.shift  # grey becomes three channels
        size = self.config.image_size
        if views.shape[-1] != size:
            views = functional.interpolate(
                views, (size, size), mode="bilinear", align_corners=False, antialias=True
            )
        if torch.compiler.is_compiling():  # also while it is exported
            return self.network(views)
        return torch.cat([self.network(view[None]) for view in views])

    def load(self, weights: dict[str, Tensor], mean: Sequence[float], std: Sequence[float]) -> None:
        """Take published weights, for views that are normalised by this mean and deviation."""
        self.network.load_state_dict(weights)
        given, wanted = _columns(mean, std), _columns(self.config.mean, self.config.std)
        self.gain.copy_(given[1] / wanted[1])
        self.shift.copy_((given[0] - wanted[0]) / wanted[1])


def _columns(mean: Sequence[float], std: Sequence[float]) -> tuple[Tensor, Tensor]:
    one, other = (
        torch.tensor(values, dtype=torch.float64).view(-1, 1, 1) for values in (mean, std)
    )
    return one, other


def build_network(config: EncoderConfig) -> Network:
    """The network of a config, with weights that mean nothing yet."""
    if config.kind == "vit":
        assert config.vit is not None, "the config of a transformer has its shape"
        return PretrainedViT(config.vit)
    if config.kind == "onnx":
        assert config.num_bytes is not None, "the config of an ONNX encoder has its bytes"
        assert config.width is not None, "the config of an ONNX encoder has its width"
        return ONNXNetwork(config.num_bytes, config.width)
    return EfficientNetLite0()
