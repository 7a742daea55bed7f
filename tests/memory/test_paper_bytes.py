"""What the paper says of bytes: exemplars of a quarter of an image."""

from __future__ import annotations

import math

import numpy as np
import pytest

from remnant.memory import Candidate, Memory, MemoryConfig, PatchesConfig


@pytest.mark.parametrize(("count_overhead", "count"), [(True, 79), (False, 80)])
def test_the_bytes_of_twenty_raw_images_hold_four_times_as_many_exemplars(
    count_overhead: bool, count: int
) -> None:
    config = MemoryConfig(
        budget="20images/class", codec=PatchesConfig(), count_overhead=count_overhead
    )
    memory = Memory(config, (32, 32, 3), seed=0)
    memory.add_class(0, "grey", map(Candidate, [np.zeros((32, 32, 3), np.uint8)] * 100))
    assert memory.budget_bytes == 61_440
    assert memory.counts == [count]
    assert memory.nbytes == count * (768 + 8 * count_overhead) <= 61_440


def test_an_exemplar_of_224_pixels_takes_37632_bytes_beside_its_bitmap() -> None:
    config = MemoryConfig(budget="1MiB/class", codec=PatchesConfig(patch_size=16))
    memory = Memory(config, (224, 224, 3), seed=0)
    memory.add_class(0, "grey", map(Candidate, [np.zeros((224, 224, 3), np.uint8)]))
    (exemplar,) = memory.exemplars(0)
    assert len(exemplar.payload) == 37_632
    assert len(exemplar.positions) == math.ceil(196 / 8)
