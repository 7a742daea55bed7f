"""Photos large enough for a frozen encoder, which tells their classes apart."""

from __future__ import annotations

import numpy as np

SIZE = 64


def photos(label: int, count: int, seed: int = 0) -> np.ndarray:
    """uint8 [count, 64, 64, 3]: stripes of another width and colour for each class, with noise."""
    rng = np.random.default_rng([seed, label])
    waves = np.sin(np.arange(SIZE) * (0.2 + 0.35 * label))[None, :, None, None]
    colour = np.roll([200, 90, 30], label)
    images = 128 + 0.4 * waves * colour + rng.normal(0, 25, (count, SIZE, SIZE, 3))
    return np.clip(images, 0, 255).astype(np.uint8)
