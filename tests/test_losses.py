from __future__ import annotations

import math

import pytest
import torch

from remnant.losses import detail_loss, distillation_loss, reconstruction_loss


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


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_distillation_loss_is_the_mean_divergence_of_softened_scores_times_temperature_squared(
    temperature: float,
) -> None:
    student = [[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]]
    teacher = [[2.0, 0.0, 0.0], [-1.0, 1.0, 1.0]]

    def soften(scores: list[float]) -> list[float]:
        powers = [math.exp(score / temperature) for score in scores]
        return [power / sum(powers) for power in powers]

    divergences = [
        sum(p * math.log(p / q) for p, q in zip(soften(old), soften(new), strict=True))
        for old, new in zip(teacher, student, strict=True)
    ]
    expected = temperature**2 * sum(divergences) / 2
    found = distillation_loss(torch.tensor(student), torch.tensor(teacher), temperature)
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_distillation_loss_has_its_minimum_of_zero_at_the_teacher() -> None:
    teacher = torch.tensor([[3.0, -2.0, 0.5]])
    student = (teacher + 7).requires_grad_()  # a shift of all scores changes no probability
    loss = distillation_loss(student, teacher, 2.0)
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-6)
    assert student.grad is not None
    torch.testing.assert_close(student.grad, torch.zeros(1, 3), rtol=0, atol=1e-6)


def test_distillation_loss_of_certain_scores_is_finite() -> None:
    student = torch.tensor([[0.0, 500.0]], requires_grad=True)
    loss = distillation_loss(student, torch.tensor([[500.0, 0.0]]), 1.0)
    loss.backward()
    assert loss.item() == pytest.approx(500)
    assert student.grad is not None
    assert bool(torch.isfinite(student.grad).all())
