from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remnant.images import count_visible, patches_to_pixels


@pytest.mark.parametrize(
    ("num_patches", "mask_ratio", "expected"),
    [(25, 0.8, 5), (64, 0.75, 16), (64, 0.4, 38), (196, 0.75, 49), (10, 0.9, 1), (7, 0.0, 7)],
)
def test_visible_patches_are_counted_in_decimal_arithmetic(
    num_patches: int, mask_ratio: float, expected: int
) -> None:
    assert count_visible(num_patches, mask_ratio) == expected


@given(num_patches=st.integers(1, 4096), thousandths=st.integers(0, 1000))
def test_visible_patches_are_the_floor_of_the_exact_product(
    num_patches: int, thousandths: int
) -> None:
    exact = num_patches * (1 - Fraction(thousandths, 1000))
    assert count_visible(num_patches, thousandths / 1000) == exact.numerator // exact.denominator


def test_a_mask_ratio_outside_zero_to_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"between 0 and 1; got 1\.5"):
        count_visible(64, 1.5)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4))
def test_every_pixel_has_the_value_of_its_patch(
    rows: int, columns: int, down: int, across: int
) -> None:
    patches = np.arange(2 * rows * columns).reshape(2, rows, columns)
    pixels = patches_to_pixels(patches, (rows * down, columns * across))
    for image, row, column in np.ndindex(pixels.shape):
        assert pixels[image, row, column] == patches[image, row // down, column // across]
    same = patches_to_pixels(torch.from_numpy(patches), (rows * down, columns * across))
    assert np.array_equal(same.numpy(), pixels)
