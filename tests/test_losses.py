from __future__ import annotations

import math

import torch

from remnant.losses import detail_loss, reconstruction_loss


def test_reconstruction_loss_is_the_mean_square_over_all_pixels() -> None:
    views = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    completed = torch.tensor([[[[1.0, 0.0], [3.0, 5.0]]]])
    assert float(reconstruction_loss(completed, views)) == (4 + 1) / 4


def test_detail_loss_is_the_mean_complex_modulus_over_all_coefficients() -> None:
    detail = torch.complex(torch.tensor([3.0, 0.0, 1.0, 0.0]), torch.tensor([4.0, 0.0, 0.0, -2.0]))
    target = torch.zeros(4, dtype=torch.complex64)
    assert float(detail_loss(detail, target)) == (5 + 0 + 1 + 2) / 4


def test_detail_loss_of_real_views_is_the_mean_absolute_difference() -> None:
    assert float(detail_loss(torch.tensor([1.0, -3.0]), torch.tensor([2.0, 1.0]))) == (1 + 4) / 2


def test_detail_loss_has_a_finite_gradient_where_both_spectra_are_zero() -> None:
    detail = torch.tensor([0j, 3 + 4j], requires_grad=True)
    detail_loss(detail, torch.zeros(2, dtype=torch.complex64)).backward()
    assert detail.grad is not None
    assert detail.grad[0] == 0
    assert math.isclose(float(detail.grad[1].abs()), 0.5, rel_tol=1e-6)
