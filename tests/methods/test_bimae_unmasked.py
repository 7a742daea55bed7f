from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import nn

from remnant.methods.bimae import BiMAE
from tests.support.small_bimae import (
    after_first_task,
    batches_of,
    make_batch,
    make_method,
    make_task,
    make_trainer,
)


def unmasked_steps(method: BiMAE, num_steps: int) -> list[int]:
    """The steps of a phase that classify and do nothing else."""
    batches = [make_batch(1, step=step, num_steps=num_steps) for step in range(num_steps)]
    return [batch.step for batch in batches if set(method.loss(batch)) == {"classify"}]


@pytest.mark.parametrize(
    ("placement", "ratio", "num_steps", "steps"),
    [
        ("end", 0.3, 10, [7, 8, 9]),
        ("spread", 0.3, 10, [3, 6, 9]),
        ("end", 0.7, 10, [3, 4, 5, 6, 7, 8, 9]),  # in binary arithmetic one less
        ("end", 0.0, 10, []),
        ("spread", 0.0, 10, []),
        ("end", 1.0, 4, [0, 1, 2, 3]),
        ("spread", 1.0, 4, [0, 1, 2, 3]),
    ],
)
def test_unmasked_steps_come_at_the_end_or_spread_evenly(
    placement: str, ratio: float, num_steps: int, steps: list[int]
) -> None:
    method = make_method(num_classes=1, unmasked_ratio=ratio, unmasked_placement=placement)
    assert unmasked_steps(method, num_steps) == steps


def test_unmasked_steps_are_counted_in_decimals_and_evenly_apart() -> None:
    method = make_method(num_classes=1, unmasked_ratio=0.29, unmasked_placement="spread")
    found = unmasked_steps(method, 100)
    assert len(found) == 29  # in binary arithmetic one less
    assert {later - earlier for earlier, later in pairwise(found)} == {3, 4}


def test_an_unmasked_step_classifies_what_prediction_sees() -> None:
    method, batch = make_method(num_classes=3, unmasked_ratio=1.0), make_batch()
    expected = nn.functional.cross_entropy(method.predict(batch.views), batch.labels)
    torch.testing.assert_close(method.loss(batch)["classify"], 0.01 * expected)


def test_unmasked_steps_show_and_crop_every_exemplar_whole() -> None:
    method = after_first_task(
        make_trainer(), exact_view_ratio=1.0, unmasked_ratio=0.5, unmasked_placement="end"
    )
    task = make_task(1)
    method.begin_task(task, make_trainer().reader)
    batches = batches_of(next(method.phases(task, make_trainer().reader)))
    half = len(batches) // 2
    for batch in batches:
        assert batch.is_known is not None
        is_partial = ~batch.is_known.flatten(1).all(dim=1)
        expected = (
            batch.is_replay if batch.step < len(batches) - half else torch.zeros_like(is_partial)
        )
        assert torch.equal(is_partial, expected)
