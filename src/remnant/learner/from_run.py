"""A finished run as the state of a learner."""

from __future__ import annotations

from pathlib import Path

from remnant.config import load_config
from remnant.data import DATASETS
from remnant.learner.learner_state import (
    LearnerConfig,
    LearnerParameters,
    LearnerState,
    restore,
    today,
)
from remnant.learner.store_checks import check_network, telling_full_memory
from remnant.runs.run_folder import CHECKPOINTS, CONFIG, read_result, require_finished
from remnant.training.checkpoints import Checkpoints, Point


def state_of_run(folder: Path) -> LearnerState:
    """What a finished run has learned.

    Raises:
        InputError: The folder is not a finished run, or its last checkpoint cannot be read.
    """
    require_finished(folder)
    run, result = load_config(folder / CONFIG), read_result(folder)
    facts, sizes = DATASETS[run.data.dataset].facts, tuple(result.task_sizes)
    config = LearnerConfig(
        image_size=run.data.image_size or facts.image_size,
        mean=facts.mean,
        std=facts.std,
        seed=run.seed,
        augment=run.augment,
        memory=run.memory,
        method=run.method,
    )
    arrays, metadata = Checkpoints(folder / CHECKPOINTS).load(Point(len(sizes)))
    check_network(config, sizes, arrays, str(folder))
    schedule = run.method.later or run.method.first
    parameters = {
        "method": run.method.name,
        "image_size": config.image_size,
        "epochs": schedule.epochs,
        "batch_size": schedule.batch_size,
        "seed": run.seed,
    }
    if run.memory is not None:
        parameters["budget"] = run.memory.budget
    update = {
        "when": today(),
        "classes": result.class_names,
        "known_classes": [],
        "accuracy": result.last_accuracy,
        "seconds": result.train_seconds,
        "memory_bytes": result.memory.used_bytes if result.memory else 0,
    }
    with telling_full_memory(str(folder)):
        method = restore(config, sizes, (arrays, metadata.get("memory")), str(folder))
    return LearnerState(
        parameters=LearnerParameters.parse(parameters),
        config=config,
        classes=tuple(result.class_names),
        task_sizes=sizes,
        history=(update,),
        method=method,
    )
