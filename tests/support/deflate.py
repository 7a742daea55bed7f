"""A codec whose payloads vary in length, as later codecs will."""

from __future__ import annotations

import zlib

import numpy as np
import torch

from remnant.memory import CODECS, Codec, Exemplar
from remnant.memory.codecs import CodecEntry


class DeflateCodec(Codec):
    def encode(self, image: np.ndarray, generator: torch.Generator) -> Exemplar:
        return Exemplar(zlib.compress(image.tobytes()))

    def decode(self, exemplar: Exemplar) -> tuple[np.ndarray, None]:
        pixels = np.frombuffer(zlib.decompress(exemplar.payload), dtype=np.uint8)
        return pixels.reshape(self.image_shape), None


DEFLATE = CodecEntry(CODECS["raw"].config, DeflateCodec)  # takes the place of "raw"
