"""A method for tests alone: a linear classifier on pixels, which has no batch statistics."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.models.classifier import LinearClassifier
from remnant.phases import Batch, OptimizerConfig, Schedule, Terms


class PixelsConfig(MethodConfig):
    name: Literal["pixels"] = "pixels"


class Pixels(Method[PixelsConfig]):
    Config = PixelsConfig

    def __init__(self, config: PixelsConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        height, width, channels = context.image_shape
        self.backbone = nn.Flatten()
        self.classifier = LinearClassifier(height * width * channels)

    def loss(self, batch: Batch) -> Terms:
        return {"classify": F.cross_entropy(self.predict(batch.views), batch.labels)}


def schedule(
    epochs: int = 2, batch_size: int = 8, *, name: Literal["sgd", "adam", "adamw"] = "sgd", **more
) -> Schedule:
    """A short schedule; `more` goes to the optimiser."""
    settings = {"name": name, "lr": 0.001, **more}
    return Schedule(
        epochs=epochs, batch_size=batch_size, optimizer=OptimizerConfig.model_validate(settings)
    )


def make_pixels(num_classes: int = 4, size: int = 16, first: Schedule | None = None) -> Pixels:
    """The method as it stands in its first task."""
    method = Pixels(
        PixelsConfig(first=first or schedule()),
        MethodContext((size, size, 3), (num_classes,), None),
    )
    method.classifier.grow(num_classes)
    return method


def flat_weights(method: nn.Module) -> list[Tensor]:
    return [tensor.detach().clone() for tensor in method.state_dict().values()]
