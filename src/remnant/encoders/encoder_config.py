"""What must be known of a pretrained encoder to build it again, without its weights."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from remnant.models.pretrained_vit import ViTShape
from remnant.settings import Settings

Channels = tuple[float, float, float]
Positive = Annotated[float, Field(gt=0)]


class EncoderConfig(Settings):
    """A frozen network that turns an image into features, and where its weights come from.

    `name` is what a user writes: "efficientnet-lite0", a path that ends in .safetensors or .onnx,
    or hf:ORG/NAME. A store holds the weights themselves, so that it opens where the source is
    missing.
    """

    name: str
    kind: Literal["efficientnet-lite0", "vit", "onnx"]
    sha256: str  # of the file with the weights
    licence: str = "unknown"
    image_size: int = Field(ge=8, le=2048)  # side to which views are resized
    mean: Channels
    std: tuple[Positive, Positive, Positive]
    vit: ViTShape | None = None
    num_bytes: int | None = None  # of an ONNX file
    width: int | None = None  # features of an ONNX file
