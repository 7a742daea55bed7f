"""Hypothesis strategies: the small worlds that property tests are drawn from."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from remnant.memory import MemoryConfig, PatchesConfig, RawConfig

Shape = tuple[int, int, int]


def pixels(shape: Shape, seed: int) -> np.ndarray:
    """A noisy image that `seed` decides, so that failures shrink to a number."""
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def smooth(shape: Shape, seed: int) -> np.ndarray:
    """An image of waves that codecs can do something with, as with a photograph."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[: shape[0], : shape[1]] / 32
    waves = np.zeros(shape)
    for _ in range(6):
        down, across, phase = rng.uniform(-4, 4), rng.uniform(-4, 4), rng.uniform(0, 7)
        wave = np.sin(2 * np.pi * (down * rows + across * columns) + phase)
        waves += wave[..., None] * rng.uniform(-20, 20, shape[2])
    return np.clip(np.rint(128 + waves), 0, 255).astype(np.uint8)


@st.composite
def images(draw: st.DrawFn, divisor: int = 1) -> np.ndarray:
    """An image, square or not, 1 or 3 channels, whose sides `divisor` divides."""
    height, width = (divisor * draw(st.integers(1, 6)) for _ in range(2))
    shape = (height, width, draw(st.sampled_from([1, 3])))
    return pixels(shape, draw(st.integers(0, 2**32 - 1)))


@st.composite
def memory_configs(draw: st.DrawFn) -> MemoryConfig:
    """Budgets, total or per class, that hold at least one exemplar of 8 x 8 pixels per class."""
    codec = draw(
        st.one_of(
            st.just(RawConfig()),
            st.builds(
                PatchesConfig,
                patch_size=st.sampled_from([1, 2, 4]),
                mask_ratio=st.sampled_from([0.0, 0.25, 0.6, 0.75]),
            ),
        )
    )
    per_class = draw(st.booleans())
    smallest = 8 * 8 * 3 + 8  # a whole image and the longest bitmap
    amount = draw(st.integers(smallest, 6 * smallest)) * (1 if per_class else 6)
    return MemoryConfig(
        budget=f"{amount}B/class" if per_class else f"{amount}B",
        codec=codec,
        count_overhead=draw(st.booleans()),
    )
