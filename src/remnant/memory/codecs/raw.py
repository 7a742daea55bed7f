"""Every byte of an image, as it is."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

from remnant.images import Shape
from remnant.memory.codecs.codec import Candidate, Codec, CodecConfig, Exemplar


class RawConfig(CodecConfig):
    """Whole images, as they are."""

    name: Literal["raw"] = "raw"


class RawCodec(Codec):
    Config = RawConfig

    def __init__(self, config: RawConfig, image_shape: Shape) -> None:
        super().__init__(config, image_shape)
        self.payload_bytes = self.image_bytes

    def encode(self, candidate: Candidate, generator: torch.Generator) -> Exemplar:
        return Exemplar(candidate.image.tobytes())

    def decode(self, exemplar: Exemplar) -> tuple[np.ndarray, np.ndarray | None]:
        return np.frombuffer(exemplar.payload, dtype=np.uint8).reshape(self.image_shape), None
