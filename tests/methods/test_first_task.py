"""With one recipe, all methods that train by cross-entropy are the same in their first task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from remnant.errors import InputError
from remnant.methods import METHODS, MethodContext
from tests.support.small_bimae import make_batch, make_task, make_trainer
from tests.support.small_residual import learn_task, make_residual
from tests.support.tiny_methods import TRIALS

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
    with pytest.raises(InputError, match="lwf does not correct its loss"):
        METHODS["lwf"](config, MethodContext((8, 8, 3), (2, 2), None))
    with pytest.raises(InputError, match=r"method.loss=softmax"):
        make_residual("icarl", loss="sigmoid", first=schedule)


@pytest.mark.parametrize(
    "name", [name for name, method in METHODS.items() if method.corrects_prior and name in TRIALS]
)
def test_a_loss_that_takes_a_prior_takes_it(name: str) -> None:
    """The same for all classes it changes nothing; else cross-entropy sees it in the scores."""
    made, trainer, task = TRIALS[name](), make_trainer(), make_task(1)
    if name == "icarl":
        made = replace(made, config=made.config.model_copy(update={"loss": "softmax"}))
    method = made.build()
    learn_task(method, 0, trainer)
    method.begin_task(task, trainer.reader)
    phase = next(method.shown_phases(task, trainer.reader))
    method.eval()
    batch = make_batch(4, labels=torch.tensor([0, 1, 2, 3]))

    def classify(log_prior: torch.Tensor | None) -> float:
        terms = phase.players[0].loss(replace(batch, log_prior=log_prior))
        return float(terms["classify"].detach())

    assert classify(torch.full((4,), 0.7)) == pytest.approx(classify(None), rel=1e-4)
    assert classify(torch.tensor([3.0, 0.0, 0.0, -3.0])) != pytest.approx(classify(None), rel=1e-2)
