"""What each method carries from task to task beside its network and its memory."""

from __future__ import annotations

import pytest

from remnant.methods import METHODS, Method, kept_bytes
from remnant.testing.tiny_stream import SHAPE
from remnant.training.task_loop import empty_tasks
from tests.support.small_residual import make_residual
from tests.support.tiny_methods import TRIALS

BESIDE: dict[str, set[str]] = {
    "bimae": {"decoder"},
    "ewc": {"fisher", "anchor", "squares"},
    "icarl": {"classifier"},  # its predictions need the means alone
    "podnet": {"class_means"},
    "ucir": {"class_means"},
}


def grown(method: Method) -> Method:
    for task in empty_tasks((2, 2), SHAPE):
        method.grow(task)
    return method


@pytest.mark.parametrize("name", list(METHODS))
def test_a_method_keeps_what_is_written_here(name: str) -> None:
    method = TRIALS[name]().build()
    expected = {"network"} | BESIDE.get(name, set())
    assert set(kept_bytes(method)) == expected | ({"memory"} if method.uses_memory else set())


def test_ewc_keeps_three_numbers_per_parameter() -> None:
    method = grown(make_residual("ewc"))
    weights = 4 * sum(parameter.numel() for parameter in method.parameters())
    kept = kept_bytes(method)
    assert kept["fisher"] == kept["anchor"] == weights
    assert kept["squares"] == weights + 8  # and how many there are
    everything = sum(tensor.nbytes for tensor in method.state_dict().values())
    assert kept["network"] == everything - 3 * weights - 8


@pytest.mark.parametrize("name", ["icarl", "ucir", "podnet"])
def test_the_head_that_does_not_predict_is_kept_beside_the_network(name: str) -> None:
    by_scores = kept_bytes(grown(make_residual(name, prediction="scores")))
    by_means = kept_bytes(grown(make_residual(name, prediction="nearest-mean")))
    assert by_scores["class_means"] == 4 * 4 * 64  # four classes, 64 features
    assert by_scores["network"] - by_means["network"] == (
        by_means["classifier"] - by_scores["class_means"]
    )
