"""How fast this machine trains, measured in seconds, and what a run will take here and on a GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import torch

from remnant.config import RunConfig
from remnant.data import describe_dataset
from remnant.data.stream import task_sizes
from remnant.methods import Method, build_method
from remnant.phases import Batch
from remnant.planning.flops import batch_of_noise, mean_over_kinds, step_flops, train_flops
from remnant.training.devices import keep_freed_memory
from remnant.training.task_loop import empty_tasks

_COUNTED_IMAGES = 2
_STEP_FLOPS = 4e10  # of a timed step, so that one of the largest network ends in a second
# Peak of dense half-precision matrix products, from the makers' data sheets.
GPU_PEAKS = {"t4": 65e12, "v100": 125e12, "a100": 312e12, "h100": 989e12}
GPU_SHARE = 0.3  # of the peak that training reaches; an assumption


@dataclass(frozen=True)
class Speed:
    """Training steps of one method on this machine, on one thread."""

    flops_per_second: float


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
    """Runs of one kind have the same network in one precision on images of the same size."""
    values = config.method.model_dump(mode="json", exclude={"first", "later"})
    size = describe_dataset(config.data).image_size
    return f"{size}, {config.training.precision}: {sorted(values.items(), key=str)}"


def measure_speed(config: RunConfig, seconds: float) -> Speed:
    """In about so many seconds, or in as many as three steps take.

    Steps are as large as those of the run, unless they would take too long, and as precise.
    """
    method, shape, num_classes = first_network(config)
    most, flops = config.method.first.batch_size, train_flops(method, shape, num_classes)
    size = max(2, min(most, int(_STEP_FLOPS // max(1, flops))))
    batch = batch_of_noise(size, shape, num_classes)
    flops = step_flops(method, batch)  # of just these rows: a rare kind may be missing
    with torch.autocast("cpu", enabled=config.training.precision == "bf16-mixed"):
        rate = _steps_per_second(method, batch, seconds)
    return Speed(rate * flops)


def first_network(config: RunConfig) -> tuple[Method, tuple[int, int, int], int]:
    """The network of the first task, the shape of its images and the number of its classes."""
    known = describe_dataset(config.data)
    shape = known.image_shape
    sizes = task_sizes(config.stream, known)
    method = build_method(config, shape, sizes)
    method.grow(empty_tasks(sizes, shape)[0])
    method.train()
    return method, shape, sizes[0]


def _steps_per_second(method: Method, batch: Batch, seconds: float) -> float:
    """By the time of the processor, so that what else runs on the machine counts for little.

    The first step, which gets its memory from the system, does not count.
    """
    keep_freed_memory()  # as in a run
    durations: list[float] = []
    deadline = time.perf_counter() + seconds
    while len(durations) < 3 or (time.perf_counter() < deadline and len(durations) < 50):
        began = time.process_time()
        torch.stack([term.float() for term in method.loss(batch).values()]).sum().backward()
        method.zero_grad(set_to_none=True)
        durations.append(time.process_time() - began)
    return 1 / median(durations[1:])


def saved_bytes_per_image(config: RunConfig) -> int:
    """What a forward pass keeps for the backward pass besides weights; the same on any machine."""
    method, shape, num_classes = first_network(config)
    batch = batch_of_noise(_COUNTED_IMAGES, shape, num_classes)
    return int(mean_over_kinds(method, batch, lambda rows: _saved_bytes(method, rows)))


def _saved_bytes(method: Method, batch: Batch) -> int:
    own = {value.untyped_storage().data_ptr() for value in method.parameters()}
    storages: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage  # held, so that no address is given out twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        method.loss(batch)
    return sum(one.nbytes() for address, one in storages.items() if address not in own)


def gpu_hours(flops: float, gpu: str) -> float:
    return flops / (GPU_SHARE * GPU_PEAKS[gpu]) / 3600
