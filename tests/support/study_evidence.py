"""Evidence for a study of the paper, from run folders that hold little but an accuracy."""

from __future__ import annotations

import json
from pathlib import Path

from remnant.recipes import load_recipe
from remnant.studies import STUDIES
from remnant.studies.evidence import Evidence
from remnant.studies.study_runs import runs_of

_STUDY = STUDIES["components"]


def write_run(folder: Path, name: str, seed: int, last: float) -> None:
    run = folder / name
    run.mkdir(parents=True)
    config = load_recipe(name.partition("-seed")[0]).model_dump(mode="json") | {"seed": seed}
    (run / "config.json").write_text(json.dumps(config))
    result = {
        "method": "bimae", "dataset": "cifar100", "seed": seed, "task_sizes": [2] * 5,
        "accuracies": [90.0, 80.0, 70.0, 60.0, last], "average_accuracy": (300 + last) / 5,
        "last_accuracy": last, "forgetting": 100 - last, "newest_accuracy": 50.0,
        "density": {"pi": last / 10}, "finished": True, "train_seconds": 1.0, "parameters": 10,
    }  # fmt: skip
    (run / "result.json").write_text(json.dumps(result))


def evidence_of(folder: Path, seeds: tuple[int, ...], rows: tuple[str, ...] = ()) -> Evidence:
    runs = runs_of(_STUDY, "mini", seeds, rows, ["published"])
    return Evidence(_STUDY, "mini", runs, folder)
