from __future__ import annotations

import itertools
import math
from typing import Literal

import pytest
import torch

from remnant.losses import (
    detail_loss,
    direction_loss,
    distillation_loss,
    margin_ranking_loss,
    nca_loss,
    pod_spatial_loss,
    reconstruction_loss,
    sigmoid_losses,
)
from tests.support.worlds import seeded


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


@pytest.mark.parametrize(
    ("form", "is_squared", "mean_over"),
    list(itertools.product(["divergence", "cross-entropy"], [True, False], ["images", "entries"])),
)
def test_every_published_convention_of_distillation_is_as_written(
    form: Literal["divergence", "cross-entropy"],
    is_squared: bool,
    mean_over: Literal["images", "entries"],
) -> None:
    student, teacher = [[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]], [[2.0, 0.0, 0.0], [-1.0, 1.0, 1.0]]
    total, temperature = 0.0, 2.0
    for new, old in zip(student, teacher, strict=True):
        for k in range(3):
            p = math.exp(old[k] / 2) / sum(math.exp(score / 2) for score in old)
            q = math.exp(new[k] / 2) / sum(math.exp(score / 2) for score in new)
            total += p * math.log(p / q) if form == "divergence" else -p * math.log(q)
    expected = total * (4 if is_squared else 1) / (2 if mean_over == "images" else 6)
    found = distillation_loss(
        torch.tensor(student),
        torch.tensor(teacher),
        temperature,
        form=form,
        times_temperature_squared=is_squared,
        mean_over=mean_over,
    )
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_both_forms_of_distillation_have_the_same_gradient() -> None:
    student = torch.tensor([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]], requires_grad=True)
    teacher = torch.tensor([[2.0, 0.0, 0.0], [-1.0, 1.0, 1.0]])
    forms: tuple[Literal["divergence", "cross-entropy"], ...] = ("divergence", "cross-entropy")
    one, other = (
        torch.autograd.grad(distillation_loss(student, teacher, 2.0, form=form), student)[0]
        for form in forms
    )
    torch.testing.assert_close(one, other)


def binary_loss(score: float, target: float) -> float:
    chance = 1 / (1 + math.exp(-score))
    return -target * math.log(chance) - (1 - target) * math.log(1 - chance)


@pytest.mark.parametrize("num_classes", [None, 10])
def test_sigmoid_losses_hold_old_outputs_at_the_teacher_and_new_ones_at_the_label(
    num_classes: int | None,
) -> None:
    scores, teacher = [[0.5, -1.0, 2.0], [1.5, 0.0, -0.5]], [[3.0], [-2.0]]
    labels = [2, 0]  # the second image is of the old class: its own label does not count
    entries = 2 * (num_classes or 3)
    new = [binary_loss(scores[i][k], float(labels[i] == k)) for i in (0, 1) for k in (1, 2)]
    old = [binary_loss(scores[i][0], 1 / (1 + math.exp(-teacher[i][0]))) for i in (0, 1)]
    classify, distill = sigmoid_losses(
        torch.tensor(scores), torch.tensor(labels), torch.tensor(teacher), num_classes
    )
    assert classify.item() == pytest.approx(sum(new) / entries, rel=1e-5)
    assert distill.item() == pytest.approx(sum(old) / entries, rel=1e-5)


def test_sigmoid_losses_without_a_teacher_are_about_labels_alone() -> None:
    classify, distill = sigmoid_losses(torch.tensor([[0.5, -1.0]]), torch.tensor([1]), None)
    expected = (binary_loss(0.5, 0) + binary_loss(-1.0, 1)) / 2
    assert classify.item() == pytest.approx(expected, rel=1e-5)
    assert distill.item() == 0


# ------------------------------------------------------------------------------------ cosine losses


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=seeded(seed))


def length(vector: list[float]) -> float:
    return math.sqrt(sum(entry**2 for entry in vector))


def test_direction_loss_is_the_mean_of_one_minus_the_cosine() -> None:
    features, teacher = noise(3, 4), noise(3, 4, seed=1)
    losses = [
        1 - sum(a * b for a, b in zip(new, old, strict=True)) / length(new) / length(old)
        for new, old in zip(features.tolist(), teacher.tolist(), strict=True)
    ]
    assert float(direction_loss(features, teacher)) == pytest.approx(sum(losses) / 3, rel=1e-5)
    assert float(direction_loss(features, 7 * features)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("num_rivals", [1, 2, 5])  # there are 3 new classes
def test_margin_ranking_is_the_mean_shortfall_of_old_images_against_their_likeliest_new_classes(
    num_rivals: int,
) -> None:
    cosines, labels, num_old, margin = noise(6, 5), [0, 3, 1, 4, 0, 1], 2, 0.5
    cosines[0, 0] = 10  # one image falls short of nothing
    shortfalls = []
    for row, label in zip(cosines.tolist(), labels, strict=True):
        if label < num_old:
            rivals = sorted(row[num_old:], reverse=True)[:num_rivals]
            shortfalls += [max(0.0, margin - row[label] + rival) for rival in rivals]
    found = margin_ranking_loss(cosines, torch.tensor(labels), num_old, margin, num_rivals)
    assert len(shortfalls) == 4 * min(num_rivals, 3)
    assert 0.0 in shortfalls
    assert float(found) == pytest.approx(sum(shortfalls) / len(shortfalls), rel=1e-5)


def test_margin_ranking_without_old_images_is_zero_with_a_gradient_of_zero() -> None:
    cosines = noise(2, 4).requires_grad_()
    loss = margin_ranking_loss(cosines, torch.tensor([2, 3]), 2, 0.5, 2)
    loss.backward()
    assert loss.item() == 0
    assert cosines.grad is not None
    assert not cosines.grad.any()


def pooled(maps: torch.Tensor) -> list[float]:
    """[podnet] of one image: squares summed over the width, then over the height, as a unit."""
    channels, height, width = maps.shape
    sums = [
        sum(float(maps[c, h, w]) ** 2 for w in range(width))
        for c in range(channels)
        for h in range(height)
    ]
    sums += [
        sum(float(maps[c, h, w]) ** 2 for h in range(height))
        for c in range(channels)
        for w in range(width)
    ]
    return [each / length(sums) for each in sums]


def test_pod_spatial_loss_is_the_mean_distance_of_pooled_squares_over_images_then_maps() -> None:
    shapes = [(2, 3, 4, 5), (2, 1, 2, 2)]
    maps = [noise(*shape) for shape in shapes]
    teacher = [noise(*shape, seed=1) for shape in shapes]
    means = []
    for new, old in zip(maps, teacher, strict=True):
        distances = [
            length([a - b for a, b in zip(pooled(one), pooled(other), strict=True)])
            for one, other in zip(new, old, strict=True)
        ]
        means.append(sum(distances) / 2)
    assert float(pod_spatial_loss(maps, teacher)) == pytest.approx(sum(means) / 2, rel=1e-5)


def test_pod_spatial_loss_of_equal_maps_is_zero_with_a_finite_gradient() -> None:
    maps = noise(2, 3, 4, 4).requires_grad_()
    loss = pod_spatial_loss([maps], [maps.detach()])
    loss.backward()
    assert loss.item() == 0
    assert maps.grad is not None
    assert bool(torch.isfinite(maps.grad).all())


SIMILARITIES, LABELS, SCALE, MARGIN = noise(4, 5), [0, 4, 2, 2], 1.7, 0.6


def test_nca_loss_of_the_paper_is_a_hinge_without_the_true_class_in_the_denominator() -> None:
    losses = []
    for row, label in zip(SIMILARITIES.tolist(), LABELS, strict=True):
        others = sum(math.exp(SCALE * each) for k, each in enumerate(row) if k != label)
        losses.append(max(0.0, -math.log(math.exp(SCALE * (row[label] - MARGIN)) / others)))
    found = nca_loss(SIMILARITIES, torch.tensor(LABELS), torch.tensor(SCALE), MARGIN, form="paper")
    assert float(found) == pytest.approx(sum(losses) / 4, rel=1e-5)


@pytest.mark.parametrize("margin", [0.0, MARGIN])
def test_nca_loss_as_released_has_a_one_for_the_true_class_and_no_margin(margin: float) -> None:
    losses = []
    for row, label in zip(SIMILARITIES.tolist(), LABELS, strict=True):
        scaled = [SCALE * (each - margin) for each in row]
        shifted = [each - max(scaled) for each in scaled]
        others = sum(math.exp(each) for k, each in enumerate(shifted) if k != label)
        losses.append(-math.log(math.exp(shifted[label]) / (1 + others)))
    found = nca_loss(
        SIMILARITIES, torch.tensor(LABELS), torch.tensor(SCALE), margin, form="released"
    )
    assert float(found) == pytest.approx(sum(losses) / 4, rel=1e-5)


def test_nca_loss_of_a_leading_true_class_is_zero_by_the_paper_alone() -> None:
    similarities, labels = torch.tensor([[0.0, -3.0]]), torch.tensor([0])
    assert float(nca_loss(similarities, labels, torch.tensor(1.0), MARGIN, "paper")) == 0
    assert float(nca_loss(similarities, labels, torch.tensor(1.0), MARGIN, "released")) > 0


@pytest.mark.parametrize("form", ["paper", "released"])
def test_nca_loss_of_a_single_class_has_a_finite_gradient(
    form: Literal["paper", "released"],
) -> None:
    similarities = torch.tensor([[-1.0], [-2.0]], requires_grad=True)
    loss = nca_loss(similarities, torch.tensor([0, 0]), torch.tensor(1.0), MARGIN, form)
    loss.backward()
    assert loss.item() == 0
    assert similarities.grad is not None
    assert bool(torch.isfinite(similarities.grad).all())


def test_the_scale_of_two_classes_can_vanish_under_the_nca_loss_of_the_paper_alone() -> None:
    """Why the released form is the default of PODNet: a first task may have two classes."""
    similarities, labels = torch.tensor([[-2.0, -1.0]]), torch.tensor([0])  # on the wrong side
    scale = torch.tensor(0.0)
    assert float(nca_loss(similarities, labels, scale, MARGIN, "paper")) == 0
    assert float(nca_loss(similarities, labels, scale, MARGIN, "released")) > 0.6
