"""Networks whose shapes depend on data: what is told of them, and what a checkpoint restores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_methods import hurry, tiny_config

from remnant.costs import predict_flops
from remnant.experiment import Experiment, run
from remnant.training.checkpoints import Point

SHAPE = (16, 16, 3)


@pytest.mark.numeric
@pytest.mark.parametrize("name", ["expandable-pruned", "simple-expandable"])
def test_a_pruned_network_is_restored_and_counted_as_it_was_cut(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    run(tiny_config(name), tmp_path / "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    experiment = Experiment(tiny_config(name), tmp_path / "run", ())
    experiment._restore(Point(2))
    method = experiment._method
    whole = 2 * 75_152  # two ResNet-8 without classifier
    assert sum(weight.numel() for weight in method.parameters()) == result["parameters"] < whole / 2
    tests = experiment._stream.seen_tests(experiment._stream[1])
    top5 = experiment._trainer.evaluate(method, tests)
    accuracy = 100 * (top5[:, 0] == tests.labels).double().mean()
    assert float(accuracy) == pytest.approx(result["last_accuracy"])
    first, second = result["predict_flops_per_task"]
    assert result["parameters_per_task"][0] < result["parameters_per_task"][1]
    assert first < second == predict_flops(method, SHAPE) == result["flops_per_image"]["predict"]
    assert result["parameters_per_task"][1] == result["parameters"]
