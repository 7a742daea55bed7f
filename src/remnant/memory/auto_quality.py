"""`memory.codec.quality="auto"`: the quality of whole images by the bytes that a class has.

With few bytes many coarse exemplars teach more than a few good ones, if new images are shown as
coarse as they are; with many, most images of a class fit, and coarseness only costs.
"""

from __future__ import annotations

import math

from remnant.images import Shape
from remnant.memory.budget import MemoryConfig, parse_budget
from remnant.memory.codecs.rates import RateConfig

# KiB per class and 32 x 32 pixels, and the quality there. Chosen: at 6 KiB on held-out images of
# CIFAR-100 (docs/methods/bimae.md); at 1.5 KiB set first, and then no worse there than its
# neighbours; at 60 KiB since all 500 images of a class fit; the last is the usual quality, where
# more images fit than most classes have. Between them quality grows with the log of the bytes.
POINTS = ((1.5, 20), (6.0, 30), (60.0, 50), (240.0, 75))
_PIXELS = 32 * 32


def quality_for(bytes_per_class: int, pixels: int) -> int:
    """The quality for images of so many pixels; never lower where there are more bytes."""
    kib = bytes_per_class / 1024 * _PIXELS / pixels
    (low, start), *_ = POINTS
    if kib <= low:
        return start
    for high, end in POINTS[1:]:
        if kib <= high:
            return round(start + (end - start) * math.log(kib / low) / math.log(high / low))
        low, start = high, end
    return start


def settle_quality(config: MemoryConfig, image_shape: Shape, num_classes: int) -> MemoryConfig:
    """The same config with a number in place of "auto"; `num_classes` share a total budget."""
    codec = config.codec
    if not isinstance(codec, RateConfig) or codec.quality != "auto":
        return config
    height, width, channels = image_shape
    budget = parse_budget(config.budget, height * width * channels)
    quality = quality_for(budget.quota(num_classes), height * width)
    return config.model_copy(update={"codec": codec.model_copy(update={"quality": quality})})
