"""Networks whose shapes depend on data: what a checkpoint restores, and what they cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from remnant.planning.flops import predict_flops
from remnant.runs.experiment import run
from remnant.testing.tiny_stream import SHAPE
from remnant.testing.trial import TrialRun
from tests.support.tiny_methods import TRIALS, run_config

WHOLE = 2 * 75_152  # parameters of two ResNet-8 without classifier


@pytest.mark.parametrize("name", ["expandable-pruned", "simple-expandable"])
def test_a_pruned_network_is_restored_as_it_was_cut(name: str, tmp_path: Path) -> None:
    whole = TrialRun(TRIALS[name](), tmp_path)
    whole.learn()
    restored, early = (TrialRun(TRIALS[name](), tmp_path) for _ in range(2))
    restored.restore(2)
    early.restore(1)
    views = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        assert torch.equal(restored.method.predict(views), whole.method.predict(views))
    sizes = [sum(one.numel() for one in run.method.parameters()) for run in (early, restored)]
    assert sizes[0] < sizes[1] < WHOLE / 2
    flops = [predict_flops(run.method, SHAPE) for run in (early, restored, whole)]
    assert flops[0] < flops[1] == flops[2]


def test_a_run_counts_the_network_after_every_task_as_it_was_cut(tmp_path: Path) -> None:
    run(run_config("expandable-pruned"), tmp_path / "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    first, second = result["parameters_per_task"]
    assert first < second == result["parameters"] < WHOLE / 2
    first, second = result["predict_flops_per_task"]
    assert first < second == result["flops_per_image"]["predict"]
