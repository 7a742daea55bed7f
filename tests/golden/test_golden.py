"""Twenty steps of training whose losses and memory are on file.

A change of numbers is a Numerics entry of the changelog. Processors round differently, and a
ResNet-8 with batch statistics enlarges that: losses agree to 0.00001 in the first task and to
0.4 % in the second, at whose end even another exemplar may be chosen. So the first task is
compared closely, with the exemplars that it leaves, and the second to 2 %. To write the file anew:

    REMNANT_UPDATE_GOLDEN=1 python -m pytest tests/golden
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import remnant.runs.experiment as experiment_module
from remnant.archives import archive_digest
from remnant.cli.console import parse_settings
from remnant.config import RunConfig, override
from remnant.files import write_json
from remnant.memory import Memory
from remnant.recipes import load_recipe
from remnant.runs.experiment import run

HERE = Path(__file__).parent


def golden_config(recipe: str) -> RunConfig:
    """A digits recipe with 8 images per class: two tasks of ten steps."""
    settings = [
        "data.images_per_class=8",
        "stream.num_classes=4",
        "stream.num_tasks=2",
        "memory.budget=3images/class",
        "method.first.epochs=5",
        "method.first.batch_size=8",
        "method.first.steps_from=new",
        f"method.first.optimizer.lr={0.01 if recipe == 'digits-er' else 0.001}",
        "training.accelerator=cpu",
        "training.threads=1",
        "training.log_every_steps=1",
    ]
    return override(load_recipe(recipe), parse_settings(settings, {}))


@pytest.mark.parametrize("recipe", ["digits-er", "digits-bimae-patches", "digits-bimae"])
def test_twenty_steps_are_as_on_file(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = HERE / f"{recipe.replace('-', '_')}.json"
    for name in ("draw_memory", "write_report"):
        monkeypatch.setattr(experiment_module, name, lambda *_: None)
    run(golden_config(recipe), tmp_path / "run")
    lines = (tmp_path / "run" / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    losses = [event["loss"] for event in events if event["event"] == "step"]
    memory = Memory.load(tmp_path / "run" / "memory.safetensors")
    for label in (2, 3):
        memory.remove_class(label)
    found = {"losses": losses, "exemplars_digest": archive_digest({}, memory.state_arrays()[0])}
    if os.environ.get("REMNANT_UPDATE_GOLDEN"):
        write_json(golden, found)
    expected = json.loads(golden.read_text())
    assert len(losses) == 20
    assert losses[:10] == pytest.approx(expected["losses"][:10], abs=1e-4)
    assert losses[10:] == pytest.approx(expected["losses"][10:], rel=0.02)
    assert found["exemplars_digest"] == expected["exemplars_digest"]
