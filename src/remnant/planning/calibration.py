"""How fast this machine trains, measured in seconds, and what a run will take here and on a GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from remnant.config import RunConfig
from remnant.data import describe_dataset
from remnant.data.stream import resolve_tasks
from remnant.methods import Method, build_method
from remnant.planning.flops import batch_of_noise, train_flops
from remnant.training.task_loop import empty_tasks

_BATCH = 16  # small, so that a step of the largest network ends in seconds
# Peak of dense half-precision matrix products, from the makers' data sheets.
GPU_PEAKS = {"t4": 65e12, "v100": 125e12, "a100": 312e12, "h100": 989e12}
GPU_SHARE = 0.3  # of the peak that training reaches; an assumption


@dataclass(frozen=True)
class Speed:
    """Training steps of one method on this machine, on one thread."""

    flops_per_second: float
    saved_bytes_per_image: int  # what the backward pass needs, besides weights


@contextmanager
def one_thread() -> Iterator[None]:
    """Beside other work several threads of one process wait for one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def kind_of(config: RunConfig) -> str:
    """Runs of one kind have the same network on images of the same size."""
    values = config.method.model_dump(mode="json", exclude={"first", "later"})
    size = describe_dataset(config.data).image_size
    return f"{size}: {sorted(values.items(), key=str)}"


def measure_speeds(configs: Sequence[RunConfig], seconds: float) -> dict[str, Speed]:
    """The speed on one thread of every kind of run among `configs`, in about so many seconds."""
    kinds = {kind_of(config): config for config in configs}
    return {kind: _measure(config, seconds / max(1, len(kinds))) for kind, config in kinds.items()}


def _measure(config: RunConfig, seconds: float) -> Speed:
    known = describe_dataset(config.data)
    shape = (known.image_size, known.image_size, known.channels)
    sizes = [len(task) for task in resolve_tasks(config.stream, known)]
    method = build_method(config, shape, sizes)
    task = empty_tasks(sizes, shape)[0]
    method.grow(task)
    method.train()
    flops = train_flops(method, shape, task.num_seen_classes)
    rate = _steps_per_second(method, shape, task.num_seen_classes, seconds)
    saved = _saved_bytes(method, shape, task.num_seen_classes)
    return Speed(rate * _BATCH * flops, saved // 2)


def _steps_per_second(
    method: Method, shape: tuple[int, int, int], num_classes: int, seconds: float
) -> float:
    batch = batch_of_noise(_BATCH, shape, num_classes)
    durations = []
    deadline = time.perf_counter() + seconds
    while len(durations) < 2 or (time.perf_counter() < deadline and len(durations) < 50):
        began = time.perf_counter()
        torch.stack([term.float() for term in method.loss(batch).values()]).sum().backward()
        method.zero_grad(set_to_none=True)
        durations.append(time.perf_counter() - began)
    return 1 / sorted(durations)[len(durations) // 2]


def _saved_bytes(method: Method, shape: tuple[int, int, int], num_classes: int) -> int:
    """Bytes that a forward pass over two images keeps for the backward pass."""
    storages: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    batch = batch_of_noise(2, shape, num_classes)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        terms = method.loss(batch)
    del terms
    return sum(storages.values())


def gpu_hours(flops: float, gpu: str) -> float:
    return flops / (GPU_SHARE * GPU_PEAKS[gpu]) / 3600
