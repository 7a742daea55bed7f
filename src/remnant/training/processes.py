"""The processes of a run and their communication: the only module that uses lightning-fabric."""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from remnant.cores import threads_each
from remnant.errors import InputError
from remnant.settings import Settings
from remnant.training.devices import (
    Acceleration,
    choose_acceleration,
    compiled_blocks,
    find_hardware,
    keep_freed_memory,
)
from remnant.training.launchers import PARENT, check_count, find_launch

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_TERMS_BYTES = 2048  # size of the message with the loss terms of one step


class TrainingConfig(Settings):
    """Devices, precision and logging of a run.

    They change results by rounding at most, except `accumulate`: batch normalisation then uses the
    statistics of a part of the batch.
    """

    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"  # "auto": a GPU if there is one
    devices: int = Field(default=1, ge=1)  # processes on this machine
    num_nodes: int = Field(default=1, ge=1)  # machines
    # "auto": bf16-mixed on CUDA devices that have it, else 32-true. On processors bf16 is slower or
    # faster; `remnant run --precision fastest` measures which.
    precision: Literal["auto", "32-true", "bf16-mixed"] = "auto"
    tf32: bool = False  # CUDA: faster float32 matrix products of lower precision
    # torch.compile for the blocks of a network; "auto": on CUDA, as CPUs gain nothing. Compiled
    # code cannot be differentiated twice: a method with a meta step needs "off".
    compile: Literal["auto", "on", "off"] = "auto"
    accumulate: int = Field(
        default=1, ge=1
    )  # parts of a batch that are processed one after another
    threads: int | None = Field(
        default=None, ge=1
    )  # per process; None: all cores, divided among the processes
    checkpoint_every_steps: int = Field(default=500, ge=1)  # also at the end of each phase
    log_every_steps: int = Field(default=10, ge=1)  # lines of events.jsonl


class LostProcessError(InputError):
    """Another process of the run has ended, so that this one cannot go on."""


@contextmanager
def _with_everyone() -> Iterator[None]:
    """Turn the tracebacks of gloo and NCCL into one sentence: another process has ended."""
    try:
        yield
    except RuntimeError as error:
        raise LostProcessError("another process of this run has ended") from error


class Processes:
    """Rank, world size and collectives of this process."""

    def __init__(self, config: TrainingConfig) -> None:
        self.acceleration = acceleration_of(config)
        self._config = config
        self._is_many = config.devices * config.num_nodes > 1
        check_count(config.devices * config.num_nodes)
        if self._is_many:
            _end_with_parent()
            assert self._fabric.world_size > 1, "Fabric has started the other processes"
            atexit.register(_leave)
        torch.set_num_threads(threads_of(config))
        self.threads = torch.get_num_threads()
        if self.acceleration.accelerator == "cpu":
            keep_freed_memory()
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.allow_tf32 = self.acceleration.tf32
        torch.set_float32_matmul_precision("high" if self.acceleration.tf32 else "highest")

    @cached_property
    def _fabric(self) -> Fabric:
        # It takes a second to import: not paid for predictions of one process.
        from lightning_fabric import Fabric

        fabric = Fabric(
            accelerator=self.acceleration.accelerator,
            devices=self._config.devices,
            num_nodes=self._config.num_nodes,
            precision=self.acceleration.precision,
            strategy="ddp" if self._is_many else "auto",
        )
        try:
            fabric.launch()
        except RuntimeError as error:  # a timeout, or an address where nobody listens
            reason = str(error).partition("\n")[0].rstrip(".")
            raise InputError(
                f"the processes of this run could not meet: {reason}. Check that all were started "
                "with the same address and port, and try again."
            ) from error
        return fabric

    @property
    def device(self) -> torch.device:
        if self._is_many or self.acceleration.accelerator != "cpu":
            return self._fabric.device
        return torch.device("cpu")

    @property
    def rank(self) -> int:
        return self._fabric.global_rank if self._is_many else 0

    @property
    def count(self) -> int:
        return self._fabric.world_size if self._is_many else 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def barrier(self) -> None:
        if self.count == 1:
            return
        with _with_everyone():
            self._fabric.barrier()

    def prepare(self, method: nn.Module) -> None:
        """Move a network that has just grown to the device; on CUDA, with SyncBatchNorm.

        Not if a process may skip a pass (`Method.may_skip_passes`): then each normalises its own
        rows, as with gloo.
        """
        is_synchronised = self.count > 1 and self.device.type == "cuda"
        if is_synchronised and not getattr(method, "may_skip_passes", False):
            nn.SyncBatchNorm.convert_sync_batchnorm(method)
        method.to(self.device)

    def autocast(self) -> AbstractContextManager[None]:
        if self.acceleration.precision == "32-true":
            return nullcontext()
        return self._fabric.autocast()

    def compiled(self, method: nn.Module) -> AbstractContextManager[None]:
        """Within this context, the blocks of the network run compiled, if so configured."""
        return compiled_blocks(method) if self.acceleration.compiled_blocks else nullcontext()

    def backward(self, loss: Tensor) -> None:
        self._fabric.backward(loss)

    # -------------------------------------------------------------------------------- collectives

    def add_terms(self, terms: dict[str, float]) -> dict[str, float]:
        """Sum loss terms over processes.

        A term may be missing in a process whose rows have no replay, or which has no rows.
        """
        if self.count == 1:
            return terms
        text = json.dumps(terms).encode().ljust(_TERMS_BYTES)
        assert len(text) == _TERMS_BYTES, f"{len(terms)} loss terms exceed {_TERMS_BYTES} bytes"
        rows = self.gather(torch.tensor(list(text), dtype=torch.uint8, device=self.device)[None])
        totals: dict[str, float] = {}
        for row in rows.tolist():
            for name, value in json.loads(bytes(row)).items():
                totals[name] = totals.get(name, 0.0) + value
        return totals

    def add_counts(self, count: int) -> int:
        """Sum whole numbers over processes."""
        return int(self.gather(torch.tensor([count], device=self.device)).sum())

    def add_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Sum gradients over processes; a parameter without a gradient in any keeps None."""
        if self.count == 1:
            return
        flags = torch.tensor([float(p.grad is not None) for p in parameters], device=self.device)
        grads = [
            torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten()
            for p in parameters
        ]
        summed = self._sum(torch.cat([flags, *grads]))
        flags, values = summed[: len(parameters)], summed[len(parameters) :]
        pieces = values.split([p.numel() for p in parameters])
        for parameter, flag, piece in zip(parameters, flags.tolist(), pieces, strict=True):
            parameter.grad = piece.view_as(parameter).clone() if flag else None

    def average_statistics(self, method: nn.Module) -> None:
        """Average the running statistics of batch normalisation over processes.

        gloo has no SyncBatchNorm: each process normalises its own rows, so two processes give
        other results than one for such networks, but agree with one another.
        """
        if self.count == 1:
            return
        buffers = [
            buffer
            for part in method.modules()
            if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.track_running_stats
            for buffer in (part.running_mean, part.running_var)
            if buffer is not None
        ]
        if not buffers:
            return
        summed = self._sum(torch.cat([buffer.flatten() for buffer in buffers])) / self.count
        for buffer, piece in zip(buffers, summed.split([b.numel() for b in buffers]), strict=True):
            buffer.copy_(piece.view_as(buffer))

    def gather(self, rows: Tensor) -> Tensor:
        """The rows [n, ...] of all processes in rank order; n must be the same in all."""
        if self.count == 1:
            return rows
        with _with_everyone():
            gathered = self._fabric.all_gather(rows)
        assert isinstance(gathered, Tensor), "a tensor gathers to a tensor"
        return gathered.flatten(0, 1)

    def check_same(self, digest: str, what: str) -> None:
        """Raises RuntimeError unless all processes have the same digest."""
        mine = torch.tensor(list(bytes.fromhex(digest)), dtype=torch.uint8, device=self.device)
        everyone = self.gather(mine[None])
        if not bool((everyone == mine).all()):
            raise RuntimeError(f"processes disagree on the {what}")

    def _sum(self, value: Tensor) -> Tensor:
        with _with_everyone():
            summed = self._fabric.all_reduce(value, reduce_op="sum")
        assert isinstance(summed, Tensor), "a tensor sums to a tensor"
        return summed


def threads_of(config: TrainingConfig) -> int:
    """Threads of each process; they decide how sums are split, and so the last bits."""
    return config.threads or threads_each(config.devices)


def acceleration_of(config: TrainingConfig) -> Acceleration:
    """What a run with this config uses of this machine.

    Raises:
        InputError: The accelerator is not available.
    """
    hardware = find_hardware(config.accelerator, config.devices)
    return choose_acceleration(hardware, config.precision, config.compile, config.tf32)


def as_launched(config: TrainingConfig) -> TrainingConfig:
    """The config with the processes that torchrun or srun has started, if it says nothing else."""
    launch = find_launch()
    if launch is None or config.devices * config.num_nodes > 1:
        return config
    return config.model_copy(update={"devices": launch.count_here, "num_nodes": launch.num_nodes})


def _leave() -> None:
    """Close the process group; otherwise gloo's threads can abort a process at its end."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _end_with_parent() -> None:
    """Exit soon after the process that launched this one has ended for any reason.

    Otherwise the other processes would wait half an hour for a main process that was killed.
    """
    if int(os.environ.get("LOCAL_RANK", "0")) == 0:
        os.environ[PARENT] = str(os.getpid())
        return
    if PARENT not in os.environ:
        return  # launched by another program, such as torchrun, which ends its own processes
    parent = int(os.environ[PARENT])

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, name="remnant-parent-watch", daemon=True).start()
