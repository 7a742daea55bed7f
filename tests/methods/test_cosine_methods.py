"""What UCIR and PODNet share: rows of old and new classes apart, imprinting, balanced tuning."""

from __future__ import annotations

import pytest
import torch

from tests.support.small_bimae import make_batch, make_task, make_trainer
from tests.support.small_residual import SCHEDULE, in_second_task, learn_task, make_residual
from tests.support.worlds import make_dataset, make_stream

SIGNED = {"backbone": {"name": "resnet8", "has_last_relu": False}}
DECAYING = {**SCHEDULE, "optimizer": {"name": "sgd", "lr": 0.05, "weight_decay": 0.1}}
BOTH = pytest.mark.parametrize("name", ["ucir", "podnet"])


@BOTH
def test_imprinted_classes_beat_chance_before_training(name: str) -> None:
    stream, trainer = make_stream(make_dataset()), make_trainer()
    method = make_residual(name, **SIGNED)
    method.eval().begin_task(stream[0], trainer.reader)
    for phase in method.phases(stream[0], trainer.reader):
        trainer.fit(method, stream[0], phase)
    method.begin_task(stream[1], trainer.reader)
    tests = stream.seen_tests(stream[1])
    found = trainer.reader.apply(method.predict, tests).argmax(dim=1)
    is_new = tests.labels >= 2
    accuracy = (found == tests.labels)[is_new].float().mean()
    assert accuracy > 0.5  # of four classes


@BOTH
def test_training_leaves_old_rows_as_they_are_and_tuning_moves_them(name: str) -> None:
    trainer = make_trainer()
    options = {"first": DECAYING, "balanced_tuning": SCHEDULE, **SIGNED}
    method = make_residual(name, **options)
    classifier = method.cosine if name == "ucir" else method.proxies
    learn_task(method, 0, trainer)
    task = make_task(1)
    method.eval().begin_task(task, trainer.reader)
    old, new = classifier.old.detach().clone(), classifier.new.detach().clone()
    phases = method.phases(task, trainer.reader)
    trainer.fit(method, task, next(phases))
    assert torch.equal(classifier.old, old)
    assert not torch.equal(classifier.new, new)
    new, scale = classifier.new.detach().clone(), classifier.scale.item()
    trainer.fit(method, task, next(phases))
    assert not torch.equal(classifier.old, old)
    assert not torch.equal(classifier.new, new)
    assert classifier.scale.item() == scale


@BOTH
def test_tuning_is_on_a_memory_that_holds_the_new_classes_already(name: str) -> None:
    trainer = make_trainer()
    method = in_second_task(trainer, name, balanced_tuning=SCHEDULE, **SIGNED)
    task = make_task(1)
    train, tune = method.phases(task, trainer.reader)
    assert (train.name, tune.name) == ("train", "tune")
    assert train.replay.labels.unique().tolist() == [0, 1]
    assert tune.data.labels.tolist() == [label for label in range(4) for _ in range(3)]
    assert tune.replay is None
    method.end_task(task, trainer.reader)
    assert method.memory.counts == [3] * 4


@BOTH
def test_nearest_means_can_predict_in_place_of_scores(name: str) -> None:
    trainer = make_trainer()
    method = make_residual(name, prediction="nearest-mean", **SIGNED)
    learn_task(method, 0, trainer)
    views = make_batch().views
    with torch.no_grad():
        found = method.eval().predict(views)
        torch.testing.assert_close(found, method.nearest_mean(method.features(views)))
    assert found.shape == (3, 2)
    torch.testing.assert_close(method.nearest_mean.means.norm(dim=1), torch.ones(2))
