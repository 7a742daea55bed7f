"""A codec whose payloads vary in length, as those of real codecs do."""

from __future__ import annotations

import zlib

import numpy as np
import torch

from remnant.memory import Candidate, Codec, Exemplar, RawConfig


class DeflateCodec(Codec):
    Config = RawConfig  # takes the place of "raw"

    def encode(self, candidate: Candidate, generator: torch.Generator) -> Exemplar:
        return Exemplar(zlib.compress(candidate.image.tobytes()))

    def decode(self, exemplar: Exemplar) -> tuple[np.ndarray, None]:
        pixels = np.frombuffer(zlib.decompress(exemplar.payload), dtype=np.uint8)
        return pixels.reshape(self.image_shape), None
