"""With one recipe, all methods that train by cross-entropy are the same in their first task."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.support.small_bimae import make_trainer
from tests.support.small_residual import learn_task, make_residual

SAME: dict[str, dict[str, Any]] = {
    "finetune": {},
    "lwf": {},
    "ewc": {},
    "wa": {},
    "icarl": {"loss": "softmax"},
}


@pytest.mark.parametrize("name", SAME)
def test_the_first_task_gives_the_same_network(name: str) -> None:
    expected = make_residual("er")
    learn_task(expected, 0, make_trainer())
    method = make_residual(name, **SAME[name])
    learn_task(method, 0, make_trainer())
    found = method.state_dict()
    for key, tensor in expected.state_dict().items():
        if not key.endswith("num_batches_tracked"):  # of no effect
            assert torch.equal(found[key], tensor), key
