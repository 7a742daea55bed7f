"""A finished run as what a learner knows."""

from __future__ import annotations

from pathlib import Path

from remnant.config import load_config
from remnant.data import DATASETS
from remnant.errors import InputError
from remnant.learner.defaults import LearnerSettings
from remnant.learner.learner_state import Knowledge, revive, today
from remnant.runs.run_folder import CHECKPOINTS, CONFIG, is_finished, read_result
from remnant.training.checkpoints import Checkpoints, Point


def read_run(folder: Path) -> Knowledge:
    """What a finished run has learned.

    Raises:
        InputError: The folder is no finished run, or its last checkpoint cannot be read.
    """
    if not is_finished(folder):
        raise InputError(f"{folder} must be a finished run; it is not. Finish it: remnant resume.")
    config, result = load_config(folder / CONFIG), read_result(folder)
    facts, sizes = DATASETS[config.data.dataset].facts, tuple(result.task_sizes)
    settings = LearnerSettings(
        image_size=config.data.image_size or facts.image_size,
        mean=facts.mean,
        std=facts.std,
        seed=config.seed,
        augment=config.augment,
        memory=config.memory,
        method=config.method,
    )
    arrays, metadata = Checkpoints(folder / CHECKPOINTS).load(Point(len(sizes)))
    method = revive(settings, sizes, arrays, metadata.get("memory"), str(folder))
    schedule = config.method.later or config.method.first
    parameters = {
        "budget": config.memory.budget if config.memory else "60KiB/class",
        "method": config.method.name,
        "image_size": settings.image_size,
        "codec": None,
        "epochs": schedule.epochs,
        "batch_size": schedule.batch_size,
        "width": None,
        "learning_rate": None,
        "augment": None,
        "options": None,
        "seed": config.seed,
    }
    update = {
        "when": today(),
        "classes": result.class_names,
        "known_classes": [],
        "accuracy": result.last_accuracy,
        "seconds": result.train_seconds,
        "memory_bytes": result.memory.used_bytes if result.memory else 0,
    }
    classes = tuple(result.class_names)
    return Knowledge(parameters, settings, classes, sizes, (update,), method)
