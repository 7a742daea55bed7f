"""The training loop: the only backward pass of the package, on one device or many.

Gradients are added up across processes here rather than by a wrapper around the network: players
with losses of their own, second-order terms and networks that grow then need nothing special.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from remnant.errors import InputError
from remnant.images import ImageSet, Task
from remnant.methods.base import Method
from remnant.phases import Batch, Phase, Player
from remnant.randomness import derive_seed
from remnant.training.batches import Feeder, Look
from remnant.training.network_state import Arrays, load_training_state, training_state
from remnant.training.optimizers import (
    build_optimizer,
    clip_gradients,
    learning_rate,
    set_learning_rate,
)
from remnant.training.processes import Processes
from remnant.training.reader import ViewReader


class NonFiniteLossError(InputError):
    """A loss became infinite or not a number."""


@dataclass(frozen=True)
class StepReport:
    """One optimiser step, for progress bars and event logs."""

    task: int
    phase: str
    epoch: int  # from 0
    num_epochs: int
    step: int  # from 0 within the phase
    num_steps: int
    terms: dict[str, float]
    lr: float
    images: int
    images_per_second: float
    is_epoch_end: bool

    @property
    def loss(self) -> float:
        return sum(self.terms.values())


class Watcher(Protocol):
    """Whoever wants to know how training goes."""

    def on_step(self, report: StepReport) -> None: ...


SaveStep = Callable[
    [int, Arrays], None
]  # steps done, everything training needs to go on from there


class Trainer:
    """Runs phases and evaluates; knows devices and processes, but no concrete method."""

    def __init__(
        self,
        processes: Processes,
        look: Look,
        seed: int,
        *,
        accumulate: int = 1,
        checkpoint_every_steps: int = 500,
    ) -> None:
        self.processes = processes
        self.reader = ViewReader(processes, look, seed)
        self._look = look
        self._seed = seed
        self.accumulate = accumulate
        self._checkpoint_every_steps = checkpoint_every_steps

    def fit(
        self,
        method: Method,
        task: Task,
        phase: Phase,
        *,
        watchers: tuple[Watcher, ...] = (),
        resume_from: tuple[int, Mapping[str, np.ndarray]] | None = None,
        save: SaveStep | None = None,
    ) -> None:
        """Optimise one phase, from its beginning or from a step saved earlier."""
        self.processes.prepare(method)
        seed = derive_seed(self._seed, "fit", task.index, phase.name)
        means = self.processes.acceleration
        feeder = Feeder(
            phase,
            self._look,
            seed,
            self.processes.device,
            has_pinned_memory=means.pinned_memory,
        )
        optimizers = [
            build_optimizer(player.optimizer, player.parameters, is_fused=means.fused_optimizers)
            for player in phase.players
        ]
        first, last = phase.epochs or (0, phase.schedule.epochs)
        start, stop = (epoch * feeder.sampler.steps_per_epoch for epoch in (first, last))
        if resume_from is not None:
            start, arrays = resume_from
            load_training_state(method, optimizers, arrays)
        loop = _Loop(self, method, task, phase, feeder, optimizers, seed)
        steps = range(start, stop)
        # Closing stops the thread that reads ahead, whoever raises.
        with (
            only_moving(method, phase),
            self.processes.compiled(method),
            closing(loop.batches(steps)) as batches,
        ):
            method.train()
            for report in loop.run(steps, batches):
                done = report.step + 1
                for watcher in watchers:
                    watcher.on_step(report)
                is_due = done % self._checkpoint_every_steps == 0 and done < stop
                if save is not None and is_due:
                    save(done, training_state(method, optimizers))
        method.eval()

    def evaluate(self, method: Method, images: ImageSet) -> Tensor:
        """Labels of the five best scores for every image, best first: int64 [N, 5], -1 for none."""
        method.eval()

        def best(views: Tensor) -> Tensor:
            scores = method.predict(views)
            return scores.topk(min(5, scores.shape[1]), dim=1).indices

        found = self.reader.apply(best, images)
        return nn.functional.pad(found, (0, 5 - found.shape[1]), value=-1)


class _Loop:
    """One phase under way."""

    def __init__(
        self,
        trainer: Trainer,
        method: Method,
        task: Task,
        phase: Phase,
        feeder: Feeder,
        optimizers: list[torch.optim.Optimizer],
        seed: int,
    ) -> None:
        self._processes = trainer.processes
        self._accumulate = trainer.accumulate
        self._method = method
        self._task = task
        self._phase = phase
        self._feeder = feeder
        self._optimizers = optimizers
        self._seed = seed

    def batches(self, steps: range) -> Generator[list[Batch], None, None]:
        """This process's parts of every step's batch."""
        first = self._processes.rank * self._accumulate
        parts = range(first, first + self._accumulate)
        return self._feeder.batches(steps, parts, self._processes.count * self._accumulate)

    def run(self, steps: range, fed: Iterator[list[Batch]]) -> Iterator[StepReport]:
        sampler, schedule = self._feeder.sampler, self._phase.schedule
        began = time.perf_counter()
        for step, batches in zip(steps, fed, strict=True):
            torch.manual_seed(derive_seed(self._seed, "step", step))
            terms: dict[str, float] = {}
            rate = 0.0
            for player, optimizer in zip(self._phase.players, self._optimizers, strict=True):
                if step % player.every == 0:
                    rate = learning_rate(
                        player.optimizer, step, sampler.steps_per_epoch, sampler.num_steps
                    )
                    set_learning_rate(optimizer, rate)
                    terms |= self._move(player, optimizer, batches, step)
            self._processes.average_statistics(self._method)
            images = sampler.batch_size(step)
            now = time.perf_counter()
            epoch = step // sampler.steps_per_epoch
            yield StepReport(
                task=self._task.index,
                phase=self._phase.name,
                epoch=epoch,
                num_epochs=schedule.epochs,
                step=step,
                num_steps=sampler.num_steps,
                terms=terms,
                lr=rate,
                images=images,
                images_per_second=images / max(now - began, 1e-9),
                is_epoch_end=(step + 1) % sampler.steps_per_epoch == 0,
            )
            began = time.perf_counter()

    def _move(
        self,
        player: Player,
        optimizer: torch.optim.Optimizer,
        batches: list[Batch],
        step: int,
    ) -> dict[str, float]:
        """One player's turn: gradients over all parts of the batch, then a step."""
        for parameter in self._phase.parameters:
            parameter.grad = None
        num_images = self._feeder.sampler.batch_size(step)
        totals: dict[str, float] = {}
        for batch in batches:
            if len(batch.labels) == 0:
                continue
            share = len(batch.labels) / num_images
            with self._processes.autocast():
                terms = player.loss(batch)
                loss = torch.stack([term.float() for term in terms.values()]).sum() * share
            self._processes.backward(loss)
            for name, term in terms.items():
                totals[name] = totals.get(name, 0.0) + float(term.detach()) * share
        totals = self._processes.add_terms(totals)
        self._check(totals, step)  # of the sum, so that all processes stop together
        self._processes.add_gradients(player.parameters)
        clip_gradients(player.optimizer, player.parameters)
        if player.on_gradients is not None:
            player.on_gradients()
        optimizer.step()
        if player.after_step is not None:
            player.after_step()
        return totals

    def _check(self, terms: Mapping[str, float], step: int) -> None:
        for name, term in terms.items():
            if not math.isfinite(term):
                raise NonFiniteLossError(
                    f"the loss term {name!r} became {term} in task "
                    f"{self._task.index}, phase {self._phase.name!r}, step {step}. Lower the "
                    "learning rate or clip the gradients (optimizer.clip_norm)."
                )


class only_moving:
    """Within the block, gradients are computed for the phase's parameters and for no others."""

    def __init__(self, method: nn.Module, phase: Phase) -> None:
        self._all = list(method.parameters())
        self._before = [parameter.requires_grad for parameter in self._all]
        self._moving = phase.parameters

    def __enter__(self) -> None:
        for parameter in self._all:
            parameter.requires_grad_(False)
        for parameter in self._moving:
            parameter.requires_grad_(True)

    def __exit__(self, *_: object) -> None:
        for parameter, before in zip(self._all, self._before, strict=True):
            parameter.requires_grad_(before)
            parameter.grad = None
