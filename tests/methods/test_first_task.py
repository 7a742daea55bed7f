"""With one recipe, all methods that train by cross-entropy are the same in their first task."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from remnant.errors import InputError
from remnant.methods import METHODS, MethodContext
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


def test_a_prior_that_a_loss_cannot_take_is_refused() -> None:
    schedule = {"epochs": 1, "batch_size": 4, "optimizer": {"lr": 0.1}, "corrects_prior": True}
    config = METHODS["lwf"].Config.model_validate({"name": "lwf", "first": schedule})
    with pytest.raises(InputError, match="lwf has no cross-entropy over all classes"):
        METHODS["lwf"](config, MethodContext((8, 8, 3), (2, 2), None))
