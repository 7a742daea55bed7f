"""Which share of a training step do two processes spend on summing gradients?

    torchrun --nproc-per-node 2 benchmarks/communication.py
    torchrun --nproc-per-node 2 benchmarks/communication.py --network paper --batch-size 32

Every process computes loss and gradients of its part of a batch, and the gradients are summed as in
a run. Both are timed by the clock and by the processor: the clock includes waiting for the other
process, which on a busy machine is waiting for a core; the processor tells what the sum itself
costs. The last column is what hiding the sum behind the backward pass could save at most.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch

from remnant.bench.steps import MINI, NUM_CLASSES, PAPER, SHAPE, build_bimae
from remnant.planning.flops import batch_of_noise
from remnant.training.processes import Processes, TrainingConfig, as_launched

NETWORKS = {"mini": MINI, "paper": PAPER}


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--network", choices=list(NETWORKS), default="mini")
    parser.add_argument("--batch-size", type=int, default=64, help="of each process")
    parser.add_argument("--steps", type=int, default=5)
    arguments = parser.parse_args()
    processes = Processes(as_launched(TrainingConfig(accelerator="cpu", threads=1)))
    torch.manual_seed(0)
    method = build_bimae(NETWORKS[arguments.network])
    parameters = list(method.parameters())
    batch = batch_of_noise(arguments.batch_size, SHAPE, NUM_CLASSES)

    def differentiate() -> None:
        for parameter in parameters:
            parameter.grad = None
        processes.backward(torch.stack([*method.loss(batch).values()]).sum())

    steps, sums = [], []
    for _ in range(arguments.steps + 1):
        steps.append(timed(differentiate))
        processes.barrier()
        sums.append(timed(lambda: processes.add_gradients(parameters)))
    if not processes.is_first:
        return
    size = sum(parameter.numel() for parameter in parameters) * 4
    print(f"{arguments.network}: {processes.count} processes, {size / 1e6:.1f} MB of gradients\n")
    print("| measured by | loss and gradients, ms | their sum, ms | share of the sum |")
    print("|---|---:|---:|---:|")
    for index, name in enumerate(("clock", "processor")):
        step, total = (median(one[index] for one in times[1:]) for times in (steps, sums))
        share = total / (step + total)
        print(f"| {name} | {1000 * step:,.0f} | {1000 * total:,.1f} | {share:.1%} |")


if __name__ == "__main__":
    main()
