from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from remnant.models.frequency import HighPass, low_frequencies

PIECES = pytest.mark.parametrize("patch_size", [None, 4])


def wave(rows_per_cycle: float, columns_per_cycle: float, shift: float = 0) -> Tensor:
    down = torch.arange(24, dtype=torch.float64)[:, None]
    right = torch.arange(40, dtype=torch.float64)[None, :]
    phase = 2 * math.pi * (down / rows_per_cycle + right / columns_per_cycle) + shift
    return phase.cos()[None, None]  # [1, 1, 24, 40]


@PIECES
def test_a_constant_image_has_no_high_band(patch_size: int | None) -> None:
    spectrum = HighPass((8, 12, 3), 0.25, patch_size)(torch.full((2, 3, 8, 12), 7.0))
    assert spectrum.abs().max() < 1e-5


@PIECES
def test_the_finest_checkerboard_passes_unchanged(patch_size: int | None) -> None:
    high_pass = HighPass((24, 40, 1), 0.25, patch_size)
    for view in (wave(2, 2), wave(2, math.inf), wave(math.inf, 2)):
        torch.testing.assert_close(high_pass.inverse(high_pass(view)), view)


def test_a_wave_at_the_cutoff_is_removed_and_the_next_finer_one_passes() -> None:
    high_pass = HighPass((24, 40, 1), 0.25)
    at_cutoff, finer = wave(4, math.inf), wave(24 / 7, math.inf)
    assert high_pass(at_cutoff).abs().max() < 1e-9
    torch.testing.assert_close(high_pass.inverse(high_pass(finer)), finer)


@given(height=st.integers(1, 40), width=st.integers(1, 40))
def test_low_frequencies_are_a_disc_that_holds_its_edge(height: int, width: int) -> None:
    is_low = low_frequencies(height, width, 0.25)
    for i in range(height):
        for j in range(width):
            down, right = min(i, height - i), min(j, width - j)
            inside = 16 * ((down * width) ** 2 + (right * height) ** 2) <= (height * width) ** 2
            assert bool(is_low[i, j]) == inside


@PIECES
def test_low_band_plus_high_band_gives_the_image_back(patch_size: int | None) -> None:
    views = torch.randn(2, 3, 8, 12, dtype=torch.float64)
    high_pass = HighPass((8, 12, 3), 0.25, patch_size)
    low_pass = HighPass((8, 12, 3), 0.25, patch_size)
    low_pass.is_low = ~high_pass.is_low
    both = high_pass.inverse(high_pass(views)) + low_pass.inverse(low_pass(views))
    torch.testing.assert_close(both, views)


def test_a_sine_passes_though_its_spectrum_is_purely_imaginary() -> None:
    # Fails if the complex spectrum is cast to real before the inverse transform.
    high_pass = HighPass((24, 40, 1), 0.25)
    sine = wave(3, math.inf, shift=-math.pi / 2)
    assert high_pass(sine).real.abs().max() < 1e-9
    torch.testing.assert_close(high_pass.inverse(high_pass(sine)), sine)


@PIECES
def test_the_spectrum_is_complex_and_has_as_many_coefficients_as_pixels(
    patch_size: int | None,
) -> None:
    spectrum = HighPass((8, 12, 3), 0.25, patch_size)(torch.randn(2, 3, 8, 12))
    assert spectrum.is_complex()
    assert spectrum.numel() == 2 * 3 * 8 * 12
    assert spectrum.imag.abs().max() > 0.1


@PIECES
def test_the_transform_is_orthonormal(patch_size: int | None) -> None:
    high_pass = HighPass((8, 12, 3), 0.25, patch_size)
    views = torch.randn(2, 3, 8, 12, dtype=torch.float64)
    spectrum, detail = high_pass(views), high_pass.inverse(high_pass(views))
    torch.testing.assert_close((spectrum.abs() ** 2).sum(), (detail**2).sum())


def test_frequencies_per_patch_do_not_reach_into_the_next_patch() -> None:
    high_pass = HighPass((8, 8, 1), 0.25, patch_size=4)
    views = torch.zeros(1, 1, 8, 8)
    views[0, 0, 1, 2] = 1
    detail = high_pass.inverse(high_pass(views))
    assert detail[..., :4, :4].abs().max() > 0.1
    assert detail[..., 4:, :].abs().max() == 0
    assert detail[..., :4, 4:].abs().max() == 0


def test_a_cutoff_that_would_remove_the_finest_detail_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\[0, 0\.5\) cycles per pixel"):
        HighPass((8, 8, 3), 0.5)
