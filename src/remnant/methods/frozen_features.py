"""What methods on a frozen encoder share: its setting, and one pass over the images of a task."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from pydantic import BeforeValidator
from torch import Tensor

from remnant.encoders import EncoderConfig, FrozenEncoder, describe_encoder, read_weights
from remnant.images import Task
from remnant.methods.base import MethodConfig
from remnant.methods.feature_bank import to_codes
from remnant.phases import OptimizerConfig, Reader, Schedule

DEFAULT_ENCODER = "efficientnet-lite0"


def _from_name(value: Any) -> Any:
    return describe_encoder(value) if isinstance(value, str) else value


Encoder = Annotated[EncoderConfig, BeforeValidator(_from_name)]


class FrozenConfig(MethodConfig):
    """Settings of a method that trains nothing: its schedule is never used."""

    first: Schedule = Schedule(epochs=1, batch_size=64, optimizer=OptimizerConfig(lr=1.0))
    encoder: Encoder = describe_encoder(DEFAULT_ENCODER)


class TaskCodes:
    """The codes of a task's images, int8 [N, D], read once for statistics and for selection."""

    def __init__(self, encoder: FrozenEncoder, task: Task, reader: Reader) -> None:
        self._labels = task.train.labels
        self._codes = reader.apply(lambda views: to_codes(encoder(views)), task.train)

    def of_class(self, label: int) -> Tensor:
        return self._codes[self._labels == label]


def load_encoder(encoder: FrozenEncoder, task: Task, reader: Reader) -> None:
    """Take the published weights at the first task; later ones find them in the state."""
    if task.index == 0:
        with torch.no_grad():
            encoder.load(read_weights(encoder.config), reader.mean, reader.std)
