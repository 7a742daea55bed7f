"""Joint training: all classes at once, from scratch, the upper bound of every comparison."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch.nn import functional as F

from remnant.errors import InputError
from remnant.methods.backbones import BackboneConfig, build_linear_network
from remnant.methods.base import Method, MethodConfig, MethodContext
from remnant.phases import Batch, Terms


class JointConfig(MethodConfig):
    name: Literal["joint"] = "joint"
    backbone: BackboneConfig = BackboneConfig()


class Joint(Method[JointConfig]):
    Config = JointConfig
    corrects_prior: ClassVar[bool] = True
    learns_once: ClassVar[bool] = True
    uses_memory: ClassVar[bool] = False
    has_one_row_per_class: ClassVar[bool] = True

    def __init__(self, config: JointConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        if len(context.task_sizes) != 1:
            raise InputError(
                "joint learns all classes in one task; the stream has "
                f"{len(context.task_sizes)}. Set stream.num_tasks=1."
            )
        self.backbone, self.classifier = build_linear_network(config.backbone, context.num_channels)

    def loss(self, batch: Batch) -> Terms:
        scores = batch.corrected(self.predict(batch.views))
        return {"classify": F.cross_entropy(scores, batch.labels)}
