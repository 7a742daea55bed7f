from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from remnant.memory.codecs.boxed import enlarge, shrink
from remnant.methods.activation_maps import activation_maps, blur, tight_boxes
from tests.support.worlds import seeded


def test_a_map_is_the_sum_of_channels_by_the_row_of_the_class_from_0_to_1() -> None:
    """[cam] place by place."""
    maps, rows = (
        torch.randn(2, 3, 4, 5, generator=seeded(1)),
        torch.randn(2, 3, generator=seeded(2)),
    )
    found = activation_maps(maps, rows)
    for image in range(2):
        heat = [
            [
                sum(float(rows[image, c] * maps[image, c, row, column]) for c in range(3))
                for column in range(5)
            ]
            for row in range(4)
        ]
        low, high = min(map(min, heat)), max(map(max, heat))
        expected = [[(value - low) / (high - low) for value in line] for line in heat]
        assert np.allclose(found[image, 0].numpy(), expected, atol=1e-5)


def test_a_flat_map_shows_nothing() -> None:
    assert torch.equal(
        activation_maps(torch.ones(1, 2, 3, 3), torch.ones(1, 2)), torch.zeros(1, 1, 3, 3)
    )


@given(st.integers(1, 6), st.integers(1, 7), st.integers(0, 999), st.floats(0, 0.6))
@settings(max_examples=60, deadline=None)
def test_boxes_are_tight(height: int, width: int, seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    inside = rng.random((3, height, width)) < share
    for one, box in zip(inside, tight_boxes(torch.from_numpy(inside)).tolist(), strict=True):
        places = [
            (row, column) for row in range(height) for column in range(width) if one[row, column]
        ]
        if not places:
            assert box[2] == box[3] == 0
            continue
        rows, columns = zip(*places, strict=True)
        expected = [
            min(rows),
            min(columns),
            max(rows) - min(rows) + 1,
            max(columns) - min(columns) + 1,
        ]
        assert box == expected


@pytest.mark.parametrize(("shape", "factor"), [((8, 8), 2), ((7, 9), 2), ((5, 8), 3)])
def test_what_is_outside_looks_as_the_codec_stores_it(shape: tuple[int, int], factor: int) -> None:
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    coded = enlarge(shrink(image, factor), factor, image.shape)
    views = torch.from_numpy(image).permute(2, 0, 1)[None].float()
    found = blur(views, factor)[0].permute(1, 2, 0).numpy()
    assert np.abs(found - coded).max() <= 0.5 + 1e-4  # the codec rounds
