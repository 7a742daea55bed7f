"""The training loop: the only backward pass of the package, on one device or many.

Gradients are added up across processes here rather than by a wrapper around the network: players
with losses of their own, second-order terms and networks that grow then need nothing special.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from remnant.errors import InputError
from remnant.images import ImageSet, Task
from remnant.methods.base import Method
from remnant.phases import Batch, Pace, Phase, PhaseDoneError, StepReport, Terms, Watcher
from remnant.randomness import derive_seed
from remnant.training.arithmetic import PhaseArithmetic
from remnant.training.batches import Feeder, Preprocessing
from remnant.training.network_state import Arrays, load_training_state, training_state
from remnant.training.optimizers import (
    build_optimizer,
    clip_gradients,
    learning_rate,
    set_learning_rate,
)
from remnant.training.processes import Processes
from remnant.training.reader import ViewReader
from remnant.training.sampling import Sampler


class NonFiniteLossError(InputError):
    """A loss became infinite or not a number."""


SaveStep = Callable[
    [int, Arrays], None
]  # steps done, everything training needs to go on from there
# Names beside those of loss terms, in what processes tell one another of a step.
_FLOPS, _NEW_IMAGES = " flops", " new images"


class Trainer:
    """Runs phases and evaluates; knows devices and processes, but no concrete method."""

    def __init__(
        self,
        processes: Processes,
        look: Preprocessing,
        seed: int,
        *,
        accumulate: int = 1,
        checkpoint_every_steps: int = 500,
        scratch: Path | None = None,  # a folder for large passing files
    ) -> None:
        self.processes = processes
        self.reader = ViewReader(processes, look, seed, scratch)
        self._look = look
        self._seed = seed
        self.accumulate = accumulate
        self._checkpoint_every_steps = checkpoint_every_steps
        # May lengthen and shorten phases at the ends of their epochs; only where there is one
        # process, since others could be told otherwise.
        self.pace: Pace | None = None

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
        is_fused = self.processes.acceleration.fused_optimizers
        optimizers = [
            build_optimizer(player.optimizer, player.parameters, is_fused=is_fused)
            for player in phase.players
        ]
        start = None
        if resume_from is not None:
            start, arrays = resume_from
            load_training_state(method, optimizers, arrays)
        with (
            only_moving(method, phase),
            self.processes.compiled(method),
            suppress(PhaseDoneError),
        ):
            method.train()
            left: Phase | None = phase
            while left is not None:
                work = PhaseArithmetic(method, task, left)
                start, left = self._run(work, optimizers, start, watchers, save)
        method.eval()

    def _run(
        self,
        work: PhaseArithmetic,
        optimizers: list[torch.optim.Optimizer],
        start: int | None,
        watchers: tuple[Watcher, ...],
        save: SaveStep | None,
    ) -> tuple[int, Phase | None]:
        """Train until the phase is over or gets another length; returns where, and what is left."""
        method, task, phase = work.method, work.task, work.phase
        seed = derive_seed(self._seed, "fit", task.index, phase.name)
        has_pinned_memory = self.processes.acceleration.pinned_memory
        feeder = Feeder(
            phase, self._look, seed, self.processes.device, has_pinned_memory=has_pinned_memory
        )
        first, last = phase.epochs or (0, phase.schedule.epochs)
        stop = last * feeder.sampler.steps_per_epoch
        steps = range(first * feeder.sampler.steps_per_epoch if start is None else start, stop)
        # Closing stops the thread that reads ahead, whoever raises.
        with closing(self._batches(feeder, steps)) as batches:
            began = time.perf_counter()
            for step, parts in zip(steps, batches, strict=True):
                torch.manual_seed(derive_seed(seed, "step", step))
                found, rate = self._step(work, optimizers, feeder.sampler, parts, step)
                self.processes.average_statistics(method)
                seconds = time.perf_counter() - began
                report = _report(task, phase, feeder.sampler, step, found, rate, seconds)
                for watcher in watchers:
                    watcher.on_step(report)
                epochs = self._ask_pace(phase, report)  # before saving, which is for that length
                is_due = (step + 1) % self._checkpoint_every_steps == 0 and step + 1 < stop
                if save is not None and is_due:
                    save(step + 1, training_state(method, optimizers))
                if epochs != phase.schedule.epochs:
                    return step + 1, phase.stretched(epochs)
                began = time.perf_counter()
        return stop, None

    def _ask_pace(self, phase: Phase, report: StepReport) -> int:
        """The epochs of the phase from now on; those of parts of a schedule stay."""
        if self.pace is None or phase.epochs is not None:
            return phase.schedule.epochs
        epochs = self.pace.epochs(report)
        return epochs if report.is_epoch_end else phase.schedule.epochs

    def evaluate(self, method: Method, images: ImageSet) -> Tensor:
        """Labels of the five best scores for every image, best first: int64 [N, 5], -1 for none."""
        method.eval()

        def best(views: Tensor) -> Tensor:
            scores = method.predict(views)
            return scores.topk(min(5, scores.shape[1]), dim=1).indices

        found = self.reader.apply(best, images)
        return nn.functional.pad(found, (0, 5 - found.shape[1]), value=-1)

    def _batches(self, feeder: Feeder, steps: range) -> Generator[list[Batch], None, None]:
        """This process's parts of every step's batch."""
        first = self.processes.rank * self.accumulate
        parts = range(first, first + self.accumulate)
        return feeder.batches(steps, parts, self.processes.count * self.accumulate)

    def _step(
        self,
        work: PhaseArithmetic,
        optimizers: list[torch.optim.Optimizer],
        sampler: Sampler,
        batches: list[Batch],
        step: int,
    ) -> tuple[dict[str, float], float]:
        """Every player's turn; returns what was found and the learning rate of the last one."""
        phase, totals = work.phase, {_FLOPS: 0.0, _NEW_IMAGES: 0.0}
        rate = 0.0
        for index, (player, optimizer) in enumerate(zip(phase.players, optimizers, strict=True)):
            if step % player.every:
                continue
            rate = learning_rate(player.optimizer, step, sampler.steps_per_epoch, sampler.num_steps)
            set_learning_rate(optimizer, rate)
            for parameter in phase.parameters:
                parameter.grad = None
            found = self._differentiate(work, index, batches, sampler.batch_size(step))
            # Of the sum over processes, so that all of them stop together.
            where = f"task {work.task.index + 1}, phase {phase.name!r}, step {step + 1}"
            _check_finite(found, where)
            self.processes.add_gradients(player.parameters)
            clip_gradients(player.optimizer, player.parameters)
            if player.on_gradients is not None:
                player.on_gradients()
            optimizer.step()
            if player.after_step is not None:
                self.processes.average_statistics(work.method)  # before anybody keeps them
                player.after_step()
            found[_FLOPS] += totals[_FLOPS]
            found[_NEW_IMAGES] = max(found[_NEW_IMAGES], totals[_NEW_IMAGES])
            totals |= found
        return totals, rate

    def _differentiate(
        self, work: PhaseArithmetic, index: int, batches: list[Batch], num_images: int
    ) -> dict[str, float]:
        """The backward pass of one player over all parts of a batch; returns what was found."""
        totals: dict[str, float] = {_FLOPS: 0, _NEW_IMAGES: 0}
        for batch in batches:
            if len(batch.labels) == 0:
                continue
            share = len(batch.labels) / num_images

            def move(batch: Batch = batch, share: float = share) -> Terms:
                with self.processes.autocast():
                    terms = work.phase.players[index].loss(batch)
                    loss = torch.stack([term.float() for term in terms.values()]).sum() * share
                self.processes.backward(loss)
                return terms

            is_compiled = self.processes.acceleration.compiled_blocks
            terms, flops = work.counted(index, batch, move, is_compiled=is_compiled)
            for name, term in terms.items():
                totals[name] = totals.get(name, 0.0) + float(term.detach()) * share
            totals[_FLOPS] += flops
            totals[_NEW_IMAGES] += work.num_new_images(batch) if flops else 0
        return self.processes.add_terms(totals)


def _report(
    task: Task,
    phase: Phase,
    sampler: Sampler,
    step: int,
    found: dict[str, float],
    rate: float,
    seconds: float,
) -> StepReport:
    images = sampler.batch_size(step)
    terms = {name: value for name, value in found.items() if name not in (_FLOPS, _NEW_IMAGES)}
    return StepReport(
        task=task.index,
        phase=phase.name,
        epoch=step // sampler.steps_per_epoch,
        num_epochs=phase.schedule.epochs,
        step=step,
        num_steps=sampler.num_steps,
        terms=terms,
        lr=rate,
        images=images,
        images_per_second=images / max(seconds, 1e-9),
        is_epoch_end=(step + 1) % sampler.steps_per_epoch == 0,
        flops=int(found[_FLOPS]),
        new_images=int(found[_NEW_IMAGES]),
    )


def _check_finite(terms: Mapping[str, float], where: str) -> None:
    for name, term in terms.items():
        if not math.isfinite(term):
            raise NonFiniteLossError(
                f"the loss term {name!r} became {term} in {where}. Lower the learning rate or clip "
                "the gradients (optimizer.clip_norm)."
            )


@contextmanager
def only_moving(method: nn.Module, phase: Phase) -> Iterator[None]:
    """Within the block, gradients are computed for the phase's parameters and for no others."""
    before = [(parameter, parameter.requires_grad) for parameter in method.parameters()]
    for parameter, _ in before:
        parameter.requires_grad_(False)
    for parameter in phase.parameters:
        parameter.requires_grad_(True)
    try:
        yield
    finally:
        for parameter, requires_grad in before:
            parameter.requires_grad_(requires_grad)
            parameter.grad = None
