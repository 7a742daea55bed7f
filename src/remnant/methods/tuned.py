"""Tuning of the upper layers of a pretrained encoder, with replay.

[dwsl] cosine classifiers whose rows start as class means: Gidaris and Komodakis, CVPR 2018.

Before its first step a new class is already known by the mean of its features, as in `ncm`; then
the last layers of the encoder and all rows are trained on new images and exemplars, every class
equally often. For photographs that look unlike those of ImageNet, where there are enough of them
and minutes to spend. The statistics of the encoder's norms stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from remnant.encoders import FrozenEncoder, describe_encoder
from remnant.errors import InputError
from remnant.images import Task
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.methods.frozen_features import DEFAULT_ENCODER, Encoder, load_encoder
from remnant.models.classifier import LinearClassifier
from remnant.models.precision import in_float32
from remnant.phases import Batch, OptimizerConfig, Phase, Reader, Schedule, Terms

# Chosen: small steps, since the rows start as class means and the layers as published.
_ADAMW = OptimizerConfig(
    name="adamw", lr=2e-4, weight_decay=0.05, schedule="cosine", decay_norms_and_biases=False
)


class TunedConfig(MethodConfig):
    name: Literal["tuned"] = "tuned"
    first: Schedule = Schedule(epochs=5, batch_size=16, optimizer=_ADAMW, sampling="balanced")
    encoder: Encoder = describe_encoder(DEFAULT_ENCODER)
    num_blocks: int = Field(default=3, ge=1)  # Chosen: the last ones, which are tuned
    temperature: float = Field(default=0.05, gt=0)  # cosines are divided by it
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)


class Tuned(Method[TunedConfig]):
    """Encoder, of which the upper layers move; cosines to one row per class."""

    Config = TunedConfig
    takes_known_classes: ClassVar[bool] = True
    has_one_row_per_class: ClassVar[bool] = True

    def __init__(self, config: TunedConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.encoder = FrozenEncoder(config.encoder)
        self.classifier = LinearClassifier(self.encoder.width, bias=False)
        if not self._upper_layers():
            raise InputError(
                f"tuned cannot tune {config.encoder.name}, which is an ONNX file. Use ranpac, or "
                "another encoder."
            )

    def _upper_layers(self) -> list[nn.Parameter]:
        """Parameters of the last blocks and of what comes after them."""
        blocks = getattr(self.encoder.network, "blocks", None)
        if not isinstance(blocks, nn.Sequential):
            return []
        after = (getattr(self.encoder.network, name, None) for name in ("head", "norm"))
        parts = [
            *list(blocks)[-self.config.num_blocks :],
            *(part for part in after if part is not None),
        ]
        return [parameter for part in parts for parameter in part.parameters()]

    def begin_task(self, task: Task, reader: Reader) -> None:
        load_encoder(self.encoder, task, reader)
        super().begin_task(task, reader)
        with torch.no_grad():
            for label in task.new_labels:
                features = reader.apply(self.features, task.train.of_class(label))
                mean = functional.normalize(features, dim=1).mean(dim=0)
                self.classifier.weight[label] = functional.normalize(mean, dim=0)

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        yield self.phase(
            "tune",
            task.train,
            self.config.schedule(task),
            replay=self.replay(),
            parameters=[*self._upper_layers(), *self.classifier.parameters()],
        )

    def loss(self, batch: Batch) -> Terms:
        smoothing = self.config.label_smoothing
        scores = self.predict(batch.views)
        loss = functional.cross_entropy(scores, batch.labels, label_smoothing=smoothing)
        return {"classify": loss}

    def features(self, views: Tensor) -> Tensor:
        return self.encoder(views)

    def predict(self, views: Tensor) -> Tensor:
        """Cosines to the rows, divided by the temperature."""
        with in_float32(self.features(views)) as features:
            rows = functional.normalize(self.classifier.weight, dim=1)
            return functional.normalize(features, dim=1) @ rows.T / self.config.temperature
