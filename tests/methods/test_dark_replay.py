from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from remnant.errors import InputError
from remnant.memory import Memory, MemoryConfig
from remnant.methods import METHODS, MethodContext, kept_bytes
from remnant.methods.dark_replay import DarkReplay, split_replayed, stored_score_loss
from remnant.testing.tiny_stream import SHAPE as TINY
from tests.support.small_bimae import SHAPE, make_batch, make_trainer
from tests.support.small_residual import (
    in_second_task,
    learn_task,
    make_residual,
    slow_cross_entropy,
)


def test_the_loss_over_stored_scores_is_their_mean_squared_difference() -> None:
    scores = torch.randn(3, 4)
    stored = torch.randn(3, 4)
    stored[0, 2:] = stored[1, 3:] = math.nan  # classes that were unknown when they were stored
    total, count = 0.0, 0
    for row, old in zip(scores.tolist(), stored.tolist(), strict=True):
        for score, target in zip(row, old, strict=True):
            if not math.isnan(target):
                total, count = total + (score - target) ** 2, count + 1
    assert count == 2 + 3 + 4
    assert stored_score_loss(scores, stored).item() == pytest.approx(total / count, rel=1e-5)


def test_unknown_entries_have_no_gradient_and_no_rows_no_loss() -> None:
    scores = torch.randn(2, 3, requires_grad=True)
    stored = torch.tensor([[0.5, math.nan, math.nan], [0.5, 0.25, math.nan]])
    stored_score_loss(scores, stored).backward()
    assert scores.grad is not None
    assert (scores.grad != 0).tolist() == [[True, False, False], [True, True, False]]
    assert stored_score_loss(scores[:0], stored[:0]).item() == 0


def test_replayed_rows_take_turns() -> None:
    is_replay = torch.tensor([False, True, True, False, True, True, True])
    for_scores, for_labels = split_replayed(is_replay)
    assert for_scores.nonzero().flatten().tolist() == [1, 4, 6]
    assert for_labels.nonzero().flatten().tolist() == [2, 5]


def test_terms_are_means_over_new_images_and_over_each_half_of_the_replayed_ones() -> None:
    method = in_second_task(make_trainer(), "derpp", score_weight=0.2, label_weight=0.7)
    is_replay = torch.tensor([True, False, True, True, True, False])
    labels, ids = torch.tensor([0, 2, 1, 0, 1, 3]), torch.tensor([1, 90, 4, 0, 5, 91])
    batch = make_batch(6, labels=labels)
    batch = replace(batch, is_replay=is_replay, ids=ids)
    terms = method.loss(batch)
    scores = method.predict(batch.views).detach()
    sides = method.memory.sides()
    differences = [
        (float(scores[row, label]) - float(np.frombuffer(sides[place], "<f4")[label])) ** 2
        for row, place in ((0, 1), (3, 0))
        for label in (0, 1)  # two classes were known when they were stored
    ]
    expected = {
        "classify": slow_cross_entropy(scores[[1, 5]], [2, 3]),
        "match": 0.2 * sum(differences) / 4,
        "replay": 0.7 * slow_cross_entropy(scores[[2, 4]], [1, 1]),
    }
    found = {name: term.item() for name, term in terms.items()}
    assert found == {name: pytest.approx(value, rel=1e-4) for name, value in expected.items()}


def test_exemplars_carry_the_scores_that_they_had_at_the_end_of_their_task() -> None:
    trainer, method = make_trainer(), make_residual("derpp")
    learn_task(method, 0, trainer)
    first = list(method.memory.sides())
    scores = trainer.reader.apply(method.predict, method.replay())  # raw: the images themselves
    found = np.stack([np.frombuffer(side, "<f4") for side in first])
    np.testing.assert_allclose(found, scores.numpy(), rtol=1e-4, atol=1e-5)
    learn_task(method, 1, trainer)
    sides = method.memory.sides()
    assert sides[: len(first)] == first
    assert {len(side) for side in sides} == {8, 16}  # of two classes, then of four


def test_scores_count_in_bytes() -> None:
    trainer, method = make_trainer(), make_residual("derpp")
    for index in (0, 1):
        learn_task(method, index, trainer)
    size = SHAPE[0] * SHAPE[1] * SHAPE[2]
    assert method.memory.counts == [2, 2, 2, 2]  # three raw images hold no third one with scores
    assert kept_bytes(method)["memory"] == 4 * (size + 8) + 4 * (size + 16)
    assert method.memory.ledger()["side"] == 4 * 8 + 4 * 16


def test_the_first_task_has_nothing_to_match() -> None:
    log = learn_task(make_residual("derpp"), 0, make_trainer())
    assert set(log.terms(0, "train")[0]) == {"classify"}


def test_a_budget_without_room_for_all_scores_is_refused_at_once() -> None:
    memory = Memory(MemoryConfig(budget="1image/class"), TINY, seed=0)
    config: Any = METHODS["derpp"].Config.parse(
        {"first": {"epochs": 1, "batch_size": 4, "optimizer": {"lr": 0.1}}}
    )
    with pytest.raises(InputError, match=r"memory\.budget must hold one exemplar"):
        DarkReplay(config, MethodContext(TINY, (2, 2), memory))
