from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.support.small_bimae import batches_of, make_batch, make_task, make_trainer
from tests.support.small_residual import (
    in_second_task,
    learn_task,
    make_residual,
    move_from_teacher,
    slow_sigmoid_loss,
)

LABELS = torch.tensor([0, 3, 2])  # an exemplar and two new images
HALVED = {"codec": "downscaled"}


def make_pairs(labels: torch.Tensor = LABELS) -> Any:
    twins = make_batch(seed=1).views
    twins[0] = make_batch().views[0]  # of an exemplar there is one fidelity
    return make_batch(labels=labels, twin_views=twins)


def test_the_loss_is_that_of_icarl_over_originals_and_twins() -> None:
    """Image after image, in both fidelities: [mecil] duplet learning."""
    method = in_second_task(make_trainer(), "mecil", **HALVED)
    move_from_teacher(method)
    batch, total = make_pairs(), 0.0
    for views in (batch.views, batch.twin_views):
        scores, old = method.predict(views).detach(), method.teacher(views)
        total += slow_sigmoid_loss(scores, LABELS.tolist(), old, 4) / 2
    found = sum(term.item() for term in method.loss(batch).values())
    assert found == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize(("average_over", "num_classes"), [("seen", 2), ("stream", 4)])
def test_the_first_task_has_no_teacher(average_over: str, num_classes: int) -> None:
    method = make_residual("mecil", **HALVED, average_over=average_over)
    method.eval().begin_task(make_task(0), make_trainer().reader)
    batch = make_pairs(torch.tensor([0, 1, 1]))
    both = torch.cat([batch.views, batch.twin_views])
    scores = method.predict(both).detach()
    expected = slow_sigmoid_loss(scores, [0, 1, 1, 0, 1, 1], None, num_classes)
    terms = method.loss(batch)
    assert set(terms) == {"classify"}
    assert terms["classify"].item() == pytest.approx(expected, rel=1e-5)


def test_adaptation_has_true_labels_for_old_classes_too() -> None:
    method = in_second_task(make_trainer(), "mecil", **HALVED)
    batch = make_batch(labels=LABELS)
    scores = method.predict(batch.views).detach()
    expected = slow_sigmoid_loss(scores, LABELS.tolist(), None, 4)
    assert method._adapt(batch)["classify"].item() == pytest.approx(expected, rel=1e-5)


def test_adaptation_leaves_features_and_batch_statistics_as_they_are() -> None:
    trainer, method = make_trainer(), in_second_task(make_trainer(), "mecil", **HALVED)
    task, before = make_task(1), {}
    for phase in method.phases(task, trainer.reader):
        before = {name: one.clone() for name, one in method.state_dict().items()}
        trainer.fit(method, task, phase)
    changed = {
        name for name, one in method.state_dict().items() if not torch.equal(one, before[name])
    }
    assert changed == {"classifier.weight", "classifier.bias"}


def test_new_images_are_shown_beside_what_the_memory_would_give_back() -> None:
    method, trainer = make_residual("mecil", **HALVED), make_trainer("none")
    task = make_task(0)
    method.begin_task(task, trainer.reader)
    phase = next(method.phases(task, trainer.reader))
    for batch in batches_of(phase, "none"):
        assert batch.twin_views is not None
        originals = trainer.reader.to_images(batch.views)
        twins = trainer.reader.to_images(batch.twin_views)
        for original, twin in zip(originals.numpy(), twins.numpy(), strict=True):
            small = Image.fromarray(original).resize((8, 8), Image.Resampling.BOX)
            assert np.array_equal(
                twin, np.asarray(small.resize((16, 16), Image.Resampling.BICUBIC))
            )


def test_four_exemplars_take_the_bytes_of_one_image() -> None:
    method = make_residual("mecil", **HALVED)
    learn_task(method, 0, make_trainer())
    assert method.memory.room(0) == 4 * 3
