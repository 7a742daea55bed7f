"""The share of training time spent outside forward, backward and optimiser."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from remnant.images import ArrayImages, ImageSet, Task
from remnant.methods.base import Method
from remnant.runs.events import Counters, EventLog
from remnant.training.batches import Preprocessing
from remnant.training.processes import Processes, TrainingConfig
from remnant.training.trainer import Trainer
from remnant.views.augment import AugmentConfig


class Clock:
    """Total seconds of timed calls."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def start(self, *_: Any) -> None:
        self._began = time.perf_counter()

    def stop(self, *_: Any) -> None:
        self.seconds += time.perf_counter() - self._began

    def timed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            self.start()
            try:
                return work(*inputs)
            finally:
                self.stop()

        return run


def overhead_fraction(
    method: Method,
    processes: Processes,
    config: TrainingConfig,
    num_steps: int,
    checkpoint_seconds: float,
) -> float:
    """Overhead over `num_steps` real steps of the trainer, checkpoints amortised."""
    clock = Clock()
    look = Preprocessing(AugmentConfig(), (0.5,) * 3, (0.25,) * 3)
    trainer = Trainer(processes, look, seed=0)
    task = _task(num_steps * method.config.first.batch_size)
    phase = next(method.phases(task, trainer.reader))
    players = tuple(replace(player, loss=clock.timed(player.loss)) for player in phase.players)
    hooks = [
        register_optimizer_step_pre_hook(clock.start),
        register_optimizer_step_post_hook(clock.stop),
    ]
    backward, processes.backward = processes.backward, clock.timed(processes.backward)
    with tempfile.TemporaryDirectory() as name:
        log = EventLog(Path(name), Counters(), config.log_every_steps)
        began = time.perf_counter()
        trainer.fit(method, task, replace(phase, players=players), watchers=(log,))
        total = time.perf_counter() - began
        log.close()
    processes.backward = backward
    for hook in hooks:
        hook.remove()
    amortised = checkpoint_seconds * num_steps / config.checkpoint_every_steps
    return (total - clock.seconds + amortised) / (total + amortised)


def _task(num_images: int) -> Task:
    noise = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (num_images, 32, 32, 3), dtype=torch.uint8, generator=noise)
    labels = torch.arange(num_images) % 10
    data = ImageSet(ArrayImages(images), labels, torch.arange(num_images))
    return Task(0, 1, 0, tuple(str(label) for label in range(10)), data)
