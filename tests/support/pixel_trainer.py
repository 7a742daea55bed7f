"""A trainer for the pixel method, in the process of the test."""

from __future__ import annotations

from functools import cache

from remnant.training.batches import Preprocessing
from remnant.training.processes import Processes, TrainingConfig
from remnant.training.trainer import Trainer
from remnant.views.augment import AugmentConfig
from tests.support.worlds import MEAN, NUM_THREADS, STD


@cache
def _one_process() -> Processes:
    return Processes(TrainingConfig(accelerator="cpu", threads=NUM_THREADS))


def make_trainer(*, accumulate: int = 1, checkpoint_every_steps: int = 1000) -> Trainer:
    look = Preprocessing(AugmentConfig(train="crop-flip", padding=1), MEAN, STD)
    return Trainer(
        _one_process(),
        look,
        seed=7,
        accumulate=accumulate,
        checkpoint_every_steps=checkpoint_every_steps,
    )
