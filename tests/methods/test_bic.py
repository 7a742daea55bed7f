from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from remnant.data import DataConfig
from remnant.data.stream import TaskStream
from remnant.errors import InputError
from remnant.images import ImageSet, Task
from remnant.memory import Memory, MemoryConfig, herding
from remnant.methods.base import MethodContext
from remnant.methods.bic import BiC, BiCConfig, validation_ranks
from remnant.phases import Phase
from remnant.training.trainer import Trainer
from tests.support.small_bimae import SHAPE, make_batch, make_task, make_trainer
from tests.support.small_residual import (
    SCHEDULE,
    in_second_task,
    learn_task,
    slow_cross_entropy,
    slow_distillation,
)
from tests.support.worlds import SEED_OFFSET, load_once

PER_CLASS = 30


def make_bic(budget: str, codec: Any = "raw", shape: tuple[int, int, int] = SHAPE) -> BiC:
    config = BiCConfig.model_validate({"first": SCHEDULE, "backbone": {"name": "resnet8"}})
    memory = MemoryConfig.model_validate({"budget": budget, "codec": codec})
    torch.manual_seed(SEED_OFFSET + 5)
    return BiC(config, MethodContext(shape, (2, 2, 2), Memory(memory, shape, seed=3)))


def test_the_defaults_are_those_of_the_paper() -> None:
    config = BiCConfig.model_validate({"first": SCHEDULE})
    assert (config.validation_ratio, config.shift_penalty) == (0.1, 0.1)
    correction = config.correction
    assert (correction.epochs, correction.optimizer.milestones) == (200, (60, 120, 160, 180))
    assert (correction.optimizer.lr, correction.optimizer.momentum) == (0.1, 0.9)
    assert (config.distillation.temperature, config.distillation.weight) == (2, 1)
    assert config.distillation.form == "cross-entropy"
    assert not config.distillation.times_temperature_squared


# ------------------------------------------------------------------------------------------ losses


def test_the_loss_weighs_teacher_and_labels_by_the_shares_of_old_and_new_classes() -> None:
    method = in_second_task(make_trainer(), "bic")
    method.classifier.grow(2)  # 2 old and 4 new classes: lambda = 1/3
    batch = make_batch(labels=torch.tensor([0, 3, 2]))
    terms = method.loss(batch)
    scores = method.classifier(method.features(batch.views)).detach()
    old = method.teacher(batch.views)
    labels = slow_cross_entropy(scores, [0, 3, 2])
    teacher = slow_distillation(scores, old, temperature=2)
    assert terms["classify"].item() == pytest.approx(2 / 3 * labels, rel=1e-5)
    assert terms["distill"].item() == pytest.approx(1 / 3 * teacher, rel=1e-5)


def test_the_teacher_is_corrected_and_its_student_starts_uncorrected() -> None:
    trainer, method = make_trainer(), make_bic("3images/class")
    learn_task(method, 0, trainer)
    learn_task(method, 1, trainer)
    with torch.no_grad():
        method.correction.beta.fill_(0.5)
        method.correction.gamma.fill_(-1)
    views = make_batch().views
    with torch.no_grad():
        raw = method.eval().classifier(method.features(views))  # [B, 4], the last two corrected
        method.begin_task(make_task(2), trainer.reader)
        expected = torch.cat([raw[:, :2], 0.5 * raw[:, 2:] - 1], dim=1)
        torch.testing.assert_close(method.teacher(views), expected)  # pyright: ignore
        torch.testing.assert_close(method.predict(views)[:, :4], raw)
    assert (method.correction.first, method.correction.beta.item()) == (4, 1)


def test_the_correction_is_fitted_by_cross_entropy_and_a_penalty_of_the_shift() -> None:
    method = make_bic("3images/class")
    method.correction.restart(2)
    with torch.no_grad():
        method.correction.beta.fill_(0.5)
        method.correction.gamma.fill_(-2)
    scores = torch.randn(5, 4)
    method.validation_scores = scores
    labels, ids = torch.tensor([0, 3, 2]), torch.tensor([4, 0, 2])
    terms = method._fit_correction(make_batch(labels=labels, ids=ids))
    corrected = torch.cat([scores[:, :2], 0.5 * scores[:, 2:] - 2], dim=1)[ids]
    expected = slow_cross_entropy(corrected, labels.tolist())
    assert terms["classify"].item() == pytest.approx(expected, rel=1e-5)
    assert terms["shift"].item() == pytest.approx(0.1 * 4 / 2)


def test_with_coded_views_the_correction_sees_new_images_as_coded_as_old_ones() -> None:
    trainer = make_trainer()
    webp = {"name": "webp", "quality": 5}
    seen = {}
    for ratio in (0.0, 0.5):
        method = make_bic("3images/class", webp)
        learn_task(method, 0, trainer)
        method.config = method.config.model_copy(update={"codec_view_ratio": ratio})
        task = make_task(1)
        method.begin_task(task, trainer.reader)
        _, aside = method._split_new(task)
        *_, correct = method.phases(task, trainer.reader)
        new = correct.data.select(torch.nonzero(correct.data.labels >= 2).flatten())
        pixels = torch.cat(list(trainer.reader.images(new)))
        originals = torch.cat(list(trainer.reader.images(aside)))
        coded = method.memory.present(image for image in originals.numpy())  # pyright: ignore
        seen[ratio] = [
            pixels.equal(originals),
            pixels.equal(coded.images.read(torch.arange(len(aside)))),
        ]
    assert seen == {0.0: [True, False], 0.5: [False, True]}


# -------------------------------------------------------------------------- training and validation


@settings(deadline=None)
@given(st.integers(0, 120), st.integers(0, 120), st.integers(1, 99))
def test_every_prefix_of_the_ranks_has_its_share_for_validation(
    first: int, second: int, percent: int
) -> None:
    shorter, longer = sorted((first, second))
    ranks = validation_ranks(longer, percent / 100)
    assert ranks.shape == (longer,)
    share = int(shorter * Decimal(percent) / 100)
    expected = max(1, share) if shorter > 1 else 0
    assert int(ranks[:shorter].sum()) == expected
    assert torch.equal(ranks[:shorter], validation_ranks(shorter, percent / 100))


def rows_of(images: ImageSet | None) -> set[bytes]:
    assert images is not None
    return {one.numpy().tobytes() for one in images.images.read(torch.arange(len(images)))}


def pass_by(method: BiC, task: Task, trainer: Trainer) -> list[Phase]:
    """What a task would train on, and its exemplars, without the training."""
    method.eval().begin_task(task, trainer.reader)
    phases = list(method.phases(task, trainer.reader))
    method.end_task(task, trainer.reader)
    return phases


def counts(labels: Tensor) -> list[int]:
    return labels.bincount()[labels.unique()].tolist()


@pytest.mark.parametrize(
    ("budget", "codec"),
    [("20images/class", "raw"), ("80images", "raw"), ("20images/class", "webp")],
    ids=["per class", "total", "sizes that vary"],
)
def test_no_image_for_validation_was_ever_trained_on(budget: str, codec: str) -> None:
    trainer, method = make_trainer(), make_bic(budget, codec)
    trained, validated = set(), set()
    for index in range(3):
        task = make_task(index, PER_CLASS)
        train, *second = pass_by(method, task, trainer)
        assert [phase.name for phase in second] == (["correct"] if index else [])
        trained |= rows_of(train.data) | (rows_of(train.replay) if index else set())
        if index:
            assert second[0].data.labels.unique().tolist() == list(range(2 * index + 2))
            validated |= rows_of(second[0].data)
    assert validated
    assert not trained & validated


def test_validation_exemplars_are_in_the_budget_and_as_many_new_images_are_set_aside() -> None:
    trainer, method = make_trainer(), make_bic("20images/class")
    train, *_ = pass_by(method, make_task(0, PER_CLASS), trainer)
    assert counts(train.data.labels) == [28, 28]  # 2 of 30 set aside
    assert method.memory is not None
    assert method.memory.counts == [20, 20]
    train, correct = pass_by(method, make_task(1, PER_CLASS), trainer)
    assert train.replay is not None
    assert counts(train.data.labels) == [28, 28]
    assert counts(train.replay.labels) == [18, 18]
    assert counts(correct.data.labels) == [2, 2, 2, 2]
    assert method.memory.counts == [20] * 4


def test_in_a_shared_budget_old_classes_decide_how_many_are_set_aside() -> None:
    trainer, method = make_trainer(), make_bic("80images")
    first = pass_by(method, make_task(0, 60), trainer)[0]
    assert counts(first.data.labels) == [56, 56]  # room for 40 of each: 4 for validation
    train, correct = pass_by(method, make_task(1, 60), trainer)
    assert train.replay is not None
    assert counts(train.replay.labels) == [36, 36]
    assert counts(correct.data.labels) == [4] * 4
    assert method.memory is not None
    assert method.memory.counts == [20] * 4
    train, correct = pass_by(method, make_task(2, 60), trainer)
    assert train.replay is not None
    assert counts(train.replay.labels) == [18] * 4
    assert counts(correct.data.labels) == [2] * 6


def test_a_class_keeps_no_more_than_its_images_for_validation_suffice_for() -> None:
    trainer, method = make_trainer(), make_bic("20images/class")
    task = make_task(0, 60)
    method.eval().begin_task(task, trainer.reader)
    ranks = method.rank_exemplars(task.train.of_class(0), 0, 40, trainer.reader)  # room for more
    assert len(ranks) == len(ranks.unique()) == 29  # the 30th would be the third for validation
    assert set(method.aside[0].tolist()) == set(ranks[validation_ranks(29, 0.1)].tolist())


@pytest.mark.parametrize("count", [3, 60])
def test_after_a_task_other_images_of_its_classes_are_ranked_by_herding_alone(count: int) -> None:
    trainer, method = make_trainer(), make_bic("20images/class")
    pass_by(method, make_task(0, PER_CLASS), trainer)
    others = make_task(0, count).train.of_class(0)
    ranks = method.rank_exemplars(others, 0, count, trainer.reader)
    assert ranks.tolist() == herding(trainer.reader.apply(method.features, others), count).tolist()


def test_a_memory_without_room_for_validation_is_refused() -> None:
    with pytest.raises(InputError, match=r"holds 1 with 6 classes. Raise it"):
        make_bic("11images")
    make_bic("12images")


def test_a_class_of_one_image_is_refused() -> None:
    with pytest.raises(InputError, match=r"class 'noise 0' has 1. Give it at least 2"):
        make_bic("3images/class").begin_task(make_task(0, per_class=1), make_trainer().reader)


# --------------------------------------------------------------------------------------- correction


def test_fitting_moves_two_numbers_and_nothing_else() -> None:
    trainer = make_trainer()
    method = in_second_task(trainer, "bic")
    task = make_task(1)
    phases = method.phases(task, trainer.reader)
    trainer.fit(method, task, next(phases))
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    trainer.fit(method, task, next(phases))
    moved = {
        name
        for name, tensor in method.state_dict().items()
        if not torch.equal(tensor, before[name])
    }
    assert moved == {"correction.beta", "correction.gamma"}


def test_the_correction_of_a_bias_raises_accuracy_with_beta_below_1_and_gamma_below_0() -> None:
    """Digits 0 and 1 by 10 exemplars each, then 2 and 3 by all their images, and a bias of 4."""
    data = load_once(DataConfig(dataset="digits", image_size=8))
    stream = TaskStream(data.train, data.test, data.class_names, [[0, 1], [2, 3]])
    trainer, shape = make_trainer("none"), (8, 8, 3)
    method = make_bic("10images/class", shape=shape)
    method.config = method.config.model_copy(update={"validation_ratio": 0.4})
    method.begin_task(stream[0], trainer.reader)
    for phase in method.phases(stream[0], trainer.reader):
        trainer.fit(method, stream[0], phase)
    method.end_task(stream[0], trainer.reader)
    task = stream[1]
    method.begin_task(task, trainer.reader)
    phases = method.phases(task, trainer.reader)
    trainer.fit(method, task, next(phases))
    with torch.no_grad():  # what training leaves is too small with some first weights
        method.classifier.bias[2:] += 4
    fit = next(phases)

    def accuracy(images: ImageSet) -> float:
        found = trainer.reader.apply(method.predict, images).argmax(dim=1)
        return float((found == images.labels).float().mean())

    tests = stream.seen_tests(task)
    before = accuracy(fit.data), accuracy(tests)
    trainer.fit(method, task, fit)
    after = accuracy(fit.data), accuracy(tests)
    assert after[0] > before[0] + 0.05  # rises by 0.12 or more
    assert after[1] > before[1] + 0.05
    assert 0 < method.correction.beta.item() < 1
    assert method.correction.gamma.item() < 0
