"""One codec at work on real images: what it costs, what it keeps, how long it takes.

An exemplar costs what the memory counts for it: payload, patch positions and length. PSNR is taken
over the pixels that are stored, image by image, and averaged.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from remnant.images import patches_to_pixels
from remnant.memory import Candidate, Codec
from remnant.memory.packing import Packing
from remnant.metrics import NO_ERROR_PSNR, psnr
from remnant.randomness import generator
from remnant.settings import Settings

SHOWN_IMAGES = 8  # kept as pictures


@dataclass(frozen=True)
class Row:
    """What one setting of one codec does with the images."""

    codec: str
    setting: str  # in words; empty for a codec as it comes
    settings: dict[str, Any]  # complete, as in memory.codec
    options: list[str]  # what follows --set to get them
    bytes_per_exemplar: float
    shared_bytes: int  # tables that a memory holds once, outside the budget
    exemplars_per_class: int  # floor(budget of a class / mean size)
    psnr: float | None  # dB; None: what is stored comes back bit for bit
    stored_ratio: float  # of the pixels
    encode_microseconds: float  # of the processor, per exemplar
    decode_microseconds: float
    is_on_front: bool = False

    @property
    def label(self) -> str:
        return f"{self.codec} {self.setting}".rstrip()

    @property
    def merits(self) -> tuple[float, float, float]:
        """More is better: exemplars, share of the pixels, PSNR."""
        fidelity = math.inf if self.psnr is None else self.psnr
        return self.exemplars_per_class, self.stored_ratio, fidelity


@dataclass
class Trial:
    """A codec with the sums over the images that it has seen."""

    codec: Codec
    setting: str
    packing: Packing
    # RGBA uint8 [H, W, 4] of the first images, transparent where nothing is stored.
    pictures: list[np.ndarray] = field(default_factory=list)
    num_images: int = 0
    num_exact: int = 0
    num_bytes: int = 0
    psnr_sum: float = 0.0
    stored_sum: float = 0.0
    encode_seconds: float = 0.0
    decode_seconds: float = 0.0

    def add(self, images: np.ndarray, ids: list[int], seed: int) -> None:
        """Store images, uint8 [n, H, W, C], and look at what comes back.

        Ids decide what is left out: an image loses the same patches under codecs that draw alike.
        """
        candidates = [Candidate(image) for image in images]
        rngs = [generator(seed, "plan", "patches", one) for one in ids]
        if not self.num_images:  # the first call loads libraries, which is not to be timed
            self.codec.decode(self.codec.encode(candidates[0], generator(seed)))
        start = time.process_time()  # what others do on this machine does not count
        exemplars = [self.codec.encode(one, rng) for one, rng in zip(candidates, rngs, strict=True)]
        middle = time.process_time()
        decoded = self.codec.decode_many(exemplars)
        self.decode_seconds += time.process_time() - middle
        self.encode_seconds += middle - start
        self.num_bytes += self.packing.counted(self.codec, exemplars)
        self.num_images += len(images)
        for original, (image, is_known) in zip(images, decoded, strict=True):
            known = np.ones((1, 1), dtype=bool) if is_known is None else is_known
            self._compare(original, image, patches_to_pixels(known, image.shape[:2]))

    def _compare(self, original: np.ndarray, image: np.ndarray, is_stored: np.ndarray) -> None:
        score = float(psnr(image[is_stored][None], original[is_stored][None]))
        self.num_exact += math.isinf(score)
        self.psnr_sum += min(score, NO_ERROR_PSNR)
        self.stored_sum += float(is_stored.mean())
        if len(self.pictures) < SHOWN_IMAGES:
            colours = np.broadcast_to(image, (*is_stored.shape, 3))
            alpha = 255 * is_stored[..., None].astype(np.uint8)
            self.pictures.append(np.concatenate([colours, alpha], axis=2))

    def row(self, quota_bytes: int) -> Row:
        """The means, and how many exemplars the bytes of one class hold."""
        count, settings = self.num_images, self.codec.config.model_dump(mode="json")
        return Row(
            codec=settings["name"],
            setting=self.setting,
            settings=settings,
            options=_options(settings["name"], self.codec.config),
            bytes_per_exemplar=self.num_bytes / count,
            shared_bytes=len(self.codec.tables),
            exemplars_per_class=quota_bytes * count // max(1, self.num_bytes),
            psnr=None if self.num_exact == count else self.psnr_sum / count,
            stored_ratio=self.stored_sum / count,
            encode_microseconds=1e6 * self.encode_seconds / count,
            decode_microseconds=1e6 * self.decode_seconds / count,
        )


def _options(name: str, config: Settings) -> list[str]:
    changed = config.model_dump(mode="json", exclude_defaults=True, exclude={"name"})
    words = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in changed.items()
    }
    return [f"memory.codec={name}", *(f"memory.codec.{key}={word}" for key, word in words.items())]
