"""Methods as a plug-in brings them: no recipe, and a config of any kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from torch.nn import functional as F

from remnant.methods import Method, MethodConfig, MethodContext
from remnant.methods.backbones import BackboneConfig, build_backbone
from remnant.models.classifier import LinearClassifier
from remnant.phases import Batch, Terms
from remnant.settings import Settings
from tests.support.pixel_method import Pixels


class ScalesConfig(Settings):
    patch_size: int = 2
    width: int = 8


class WithNetworkConfig(MethodConfig):
    name: Literal["with-network"] = "with-network"
    network: ScalesConfig = ScalesConfig()


class WithNetwork(Pixels):
    Config = WithNetworkConfig


class WithBackboneConfig(MethodConfig):
    name: Literal["with-backbone"] = "with-backbone"
    backbone: BackboneConfig = BackboneConfig(name="resnet8")


class WithBackbone(Method[WithBackboneConfig]):
    Config = WithBackboneConfig

    def __init__(self, config: WithBackboneConfig, world: MethodContext) -> None:
        super().__init__(config, world)
        self.backbone = build_backbone(config.backbone, world.image_shape[2])
        self.classifier = LinearClassifier(self.backbone.width)

    def loss(self, batch: Batch) -> Terms:
        return {"classify": F.cross_entropy(self.predict(batch.views), batch.labels)}


class WithNeitherConfig(MethodConfig):
    name: Literal["with-neither"] = "with-neither"
    strength: float  # has no default


class WithNeither(Pixels):
    Config = WithNeitherConfig
    uses_memory = False


@dataclass(frozen=True)
class Plugin:
    method: type[Method[Any]]
    name: str
    optimizer: str  # that suits it
    options: dict[str, Any] = field(default_factory=dict)


PLUGINS = [
    Plugin(WithNetwork, "with-network", "adamw"),
    Plugin(WithBackbone, "with-backbone", "sgd"),
    Plugin(WithNeither, "with-neither", "adam", {"method.strength": 0.5}),
]
