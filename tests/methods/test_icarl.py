from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.support.small_bimae import make_batch, make_task, make_trainer
from tests.support.small_residual import (
    in_second_task,
    learn_task,
    make_residual,
    slow_cross_entropy,
    slow_distillation,
    slow_sigmoid_loss,
)

SIGNED = {"name": "resnet8", "has_last_relu": False}
LABELS = torch.tensor([0, 3, 2])  # an exemplar and two new images


def total(terms: dict[str, torch.Tensor]) -> float:
    return sum(term.item() for term in terms.values())


def test_the_sigmoid_loss_is_one_mean_over_images_and_classes() -> None:
    method = in_second_task(make_trainer(), "icarl")
    batch = make_batch(labels=LABELS)
    scores = method.classifier(method.features(batch.views)).detach()
    expected = slow_sigmoid_loss(scores, LABELS.tolist(), method.teacher(batch.views), 4)
    assert total(method.loss(batch)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("average_over", "num_classes"), [("seen", 2), ("stream", 4)])
def test_that_mean_is_over_the_classes_seen_or_over_all_to_be_seen(
    average_over: str, num_classes: int
) -> None:
    method = make_residual("icarl", average_over=average_over)
    method.eval().begin_task(make_task(0), make_trainer().reader)
    batch = make_batch(labels=torch.tensor([0, 1, 1]))
    scores = method.classifier(method.features(batch.views)).detach()
    expected = slow_sigmoid_loss(scores, [0, 1, 1], None, num_classes)
    assert total(method.loss(batch)) == pytest.approx(expected, rel=1e-5)


def test_the_label_of_an_exemplar_is_not_used_by_the_sigmoid_loss() -> None:
    method = in_second_task(make_trainer(), "icarl")
    one, other = (total(method.loss(make_batch(labels=torch.tensor([k, 3, 2])))) for k in (0, 1))
    assert one == other


def test_the_softmax_loss_is_cross_entropy_and_distillation() -> None:
    method = in_second_task(make_trainer(), "icarl", loss="softmax")
    batch = make_batch(labels=LABELS)
    terms = method.loss(batch)
    scores = method.classifier(method.features(batch.views)).detach()
    labels = slow_cross_entropy(scores, LABELS.tolist())
    teacher = slow_distillation(scores, method.teacher(batch.views), temperature=2)
    assert terms["classify"].item() == pytest.approx(labels, rel=1e-5)
    assert terms["distill"].item() == pytest.approx(teacher, rel=1e-5)


@pytest.mark.parametrize("loss", ["sigmoid", "softmax"])
def test_the_first_task_has_no_teacher(loss: str) -> None:
    method = make_residual("icarl", loss=loss)
    method.begin_task(make_task(0), make_trainer().reader)
    assert set(method.loss(make_batch(labels=torch.tensor([0, 1, 0])))) == {"classify"}


def test_the_last_block_has_no_relu_by_default() -> None:
    backbone = make_residual("icarl").Config.model_fields["backbone"].default
    assert not backbone.has_last_relu


@pytest.mark.parametrize("codec", ["raw", {"name": "patches", "patch_size": 4}])
def test_after_a_task_an_image_is_named_by_the_nearest_mean_of_exemplars(codec: Any) -> None:
    trainer = make_trainer()
    method = make_residual("icarl", backbone=SIGNED, codec=codec)
    for index in range(2):
        learn_task(method, index, trainer)
    exemplars, views = method.memory.images(), make_batch(5).views
    means = []
    with torch.no_grad():
        for label in range(4):
            kept = exemplars.of_class(label)
            shown = trainer.reader.views(kept.images.read(torch.arange(len(kept))))
            units = [
                vector / vector.norm()
                for part in (shown, shown.flip(3))
                for vector in method.features(part)
            ]
            mean = torch.stack(units).mean(dim=0)
            means.append(mean / mean.norm())
        features = method.features(views)
        nearest = [
            min(range(4), key=lambda label: float((one / one.norm() - means[label]).square().sum()))
            for one in features
        ]
        assert method.predict(views).argmax(dim=1).tolist() == nearest
    torch.testing.assert_close(method.nearest_mean.means, torch.stack(means))


def test_prediction_by_scores_is_that_of_the_outputs() -> None:
    trainer, method = make_trainer(), make_residual("icarl", prediction="scores")
    learn_task(method, 0, trainer)
    views = make_batch().views
    assert torch.equal(method.predict(views), method.classifier(method.backbone(views)))
