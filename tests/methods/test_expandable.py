from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch

from remnant.methods.expansion import equal_classes
from remnant.phases import Phase
from remnant.randomness import generator
from tests.support.small_bimae import batches_of, make_batch, make_task, make_trainer, noise_set
from tests.support.small_residual import SCHEDULE, learn_task, make_residual, slow_cross_entropy

LABELS = torch.tensor([0, 3, 2])
WARM = {**SCHEDULE, "epochs": 3, "optimizer": {"name": "sgd", "lr": 0.05, "warmup_epochs": 1}}
GROWING = ("expandable", "expandable-pruned", "simple-expandable")


def make(name: str = "expandable", **options: Any) -> Any:
    settings: dict[str, Any] = {"balanced_tuning": SCHEDULE}
    if name == "simple-expandable":
        settings["compression"] = SCHEDULE
    return make_residual(name, **(settings | options))


def second_task(name: str = "expandable", **options: Any) -> Any:
    """A method that has learned the first task and begun the second, in evaluation mode."""
    trainer, method = make_trainer(), make(name, **options)
    learn_task(method, 0, trainer)
    method.eval().begin_task(make_task(1), trainer.reader)
    return method.eval()


@pytest.mark.parametrize("name", GROWING)
def test_features_of_old_extractors_keep_every_bit_while_new_ones_learn(name: str) -> None:
    trainer, method = make_trainer(), make(name)
    learn_task(method, 0, trainer)
    views = make_batch().views
    before = method.eval().features(views).detach()
    learn_task(method, 1, trainer)
    method.train()  # as the trainer does at the start of a phase
    after = method.network.features(views).detach()
    assert torch.equal(after[:, : before.shape[1]], before)
    assert after.shape[1] > before.shape[1]


@pytest.mark.parametrize("name", GROWING)
def test_the_newest_extractor_learns(name: str) -> None:
    trainer, method = make_trainer(), make(name)
    task = make_task(0)
    method.begin_task(task, trainer.reader)
    before = copy.deepcopy(method.network.newest.state_dict())
    phase = next(method.phases(task, trainer.reader))
    trainer.fit(method, task, phase)
    moved = {key for key, value in method.network.newest.state_dict().items()
             if not torch.equal(value, before[key])}  # fmt: skip
    assert moved == set(before) - {"is_kept"}


def test_the_loss_is_that_of_all_classes_and_of_the_newest_features() -> None:
    method = second_task(auxiliary_weight=0.5)
    batch = make_batch(labels=LABELS)
    terms = method.loss(batch)
    features = method.features(batch.views).detach()
    scores = method.network.classifier(features).detach()
    newest = method.network.auxiliary(features[:, 64:]).detach()
    assert newest.shape == (3, 1 + 2)
    assert terms["classify"].item() == pytest.approx(slow_cross_entropy(scores, [0, 3, 2]))
    # To the auxiliary head classes 0 and 1 are one, class 2 is its next and 3 the one after.
    expected = 0.5 * slow_cross_entropy(newest, [0, 2, 1])
    assert terms["auxiliary"].item() == pytest.approx(expected)


def test_the_first_task_is_plain_cross_entropy() -> None:
    trainer, method = make_trainer(), make()
    method.eval().begin_task(make_task(0), trainer.reader)
    assert set(method.loss(make_batch(labels=torch.tensor([0, 1, 1])))) == {"classify"}


@pytest.mark.parametrize("is_previous", [True, False])
def test_a_new_extractor_starts_from_the_previous_one_or_not(is_previous: bool) -> None:
    method = second_task(start_from="previous" if is_previous else "random")
    first, second = method.features(make_batch().views).split(64, dim=1)
    assert torch.equal(first, second) is is_previous


def phases_of(method: Any, index: int) -> list[Phase]:
    """All phases of a task, carried out."""
    trainer, task, found = make_trainer(), make_task(index), []
    method.begin_task(task, trainer.reader)
    for phase in method.phases(task, trainer.reader):
        found.append(phase)
        trainer.fit(method, task, phase)
    method.end_task(task, trainer.reader)
    return found


def test_heads_start_anew_where_the_warm_up_ends() -> None:
    trainer, method, task = make_trainer(), make(first=WARM), make_task(0)
    method.begin_task(task, trainer.reader)
    phases = method.phases(task, trainer.reader)
    warmup = next(phases)
    trainer.fit(method, task, warmup)
    extractor = copy.deepcopy(method.network.newest.state_dict())
    weight = method.network.classifier.weight.detach().clone()
    rest = next(phases)
    assert [(one.name, one.epochs) for one in (warmup, rest)] == [
        ("warm-up", (0, 1)),
        ("train", (1, 3)),
    ]
    assert not torch.equal(method.network.classifier.weight, weight)
    for key, value in method.network.newest.state_dict().items():
        assert torch.equal(value, extractor[key])
    assert {id(weight) for weight in rest.parameters} == {
        id(weight) for weight in method.parameters()
    }


def test_without_a_warm_up_there_is_one_phase() -> None:
    (phase,) = phases_of(make(), 0)
    assert (phase.name, phase.epochs) == ("train", None)


def test_tuning_learns_the_classifier_anew_and_nothing_else() -> None:
    trainer, method = make_trainer(), make()
    learn_task(method, 0, trainer)
    task = make_task(1)
    method.begin_task(task, trainer.reader)
    phases = method.phases(task, trainer.reader)
    trainer.fit(method, task, next(phases))
    trained = method.network.classifier.weight.detach().clone()
    tuning = next(phases)
    assert tuning.name == "tune"
    assert method.network.auxiliary is None
    assert not torch.equal(method.network.classifier.weight, trained)
    before = copy.deepcopy(method.state_dict())
    trainer.fit(method, task, tuning)
    moved = {key for key, value in method.state_dict().items()
             if not torch.equal(value, before[key])}  # fmt: skip
    assert moved == {"network.classifier.weight"}
    assert next(phases, None) is None


def test_tuning_divides_scores_by_the_temperature() -> None:
    method = make(tuning_temperature=4)
    phases_of(method, 0)
    (_, tuning) = phases_of(method, 1)
    batch = make_batch(labels=LABELS)
    scores = method.predict(batch.views).detach()
    found = tuning.players[0].loss(batch)["classify"].item()
    assert found == pytest.approx(slow_cross_entropy(scores / 4, LABELS.tolist()), rel=1e-5)


def test_tuning_sees_as_many_images_of_every_class() -> None:
    method = make()
    phases_of(method, 0)
    (_, tuning) = phases_of(method, 1)
    batches = batches_of(replace(tuning, schedule=tuning.schedule))
    labels = torch.cat([batch.labels for batch in batches])
    assert labels.bincount().tolist() == [3, 3, 3, 3]  # the memory holds three of each


@pytest.mark.parametrize("counts", [(2, 5, 3), (4, 1, 6)])
def test_classes_are_cut_to_the_smallest_wherever_it_is(counts: tuple[int, int, int]) -> None:
    old = noise_set([0] * counts[0] + [1] * counts[1])
    new = noise_set([2] * counts[2], seed=1)
    chosen = equal_classes(new, old, generator(0, "test"))
    assert [one.labels.bincount().tolist() for one in chosen] == [
        [0, 0, min(counts)],
        [min(counts)] * 2,
    ]
    assert len(set(chosen[1].ids.tolist())) == len(chosen[1])


def test_tuning_can_be_left_out() -> None:
    method = make(balanced_tuning=None)
    phases_of(method, 0)
    assert [phase.name for phase in phases_of(method, 1)] == ["train"]
