"""How fast are training steps of the mini protocol: in bf16, and as processes instead of threads?

    python benchmarks/mini_steps.py precision         # bf16 against float32, one thread
    python benchmarks/mini_steps.py jobs              # a process per core against a thread per core

Every measurement is a process of its own. `precision` goes by the time of the processor, so that
other load counts for little; `jobs` goes by the clock and needs an idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

from remnant.cores import usable_cores

RECIPES = (
    "cifar100-mini-bimae-full", "cifar100-mini-dytox", "cifar100-mini-er", "cifar100-mini-bimae",
)  # fmt: skip


def train(recipe: str, is_bf16: bool, threads: int, seconds: float) -> dict[str, float]:
    """Images per second of the clock and of the processor, in this process."""
    import torch

    from remnant.planning.calibration import first_network
    from remnant.planning.flops import batch_of_noise
    from remnant.recipes import load_recipe
    from remnant.training.devices import keep_freed_memory

    torch.set_num_threads(threads)
    keep_freed_memory()  # as in a run
    config = load_recipe(recipe)
    method, shape, num_classes = first_network(config)
    batch = batch_of_noise(config.method.first.batch_size, shape, num_classes)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=is_bf16):
            terms = method.loss(batch)
        torch.stack([term.float() for term in terms.values()]).sum().backward()
        method.zero_grad(set_to_none=True)

    step()  # gets its memory from the system
    began, used, steps = time.monotonic(), time.process_time(), 0
    while time.monotonic() < began + seconds:
        step()
        steps += 1
    images = steps * len(batch.labels)
    clock, processor = time.monotonic() - began, time.process_time() - used
    return {"clock": images / clock, "processor": images / processor}


def together(recipe: str, processes: int, threads: int, seconds: float, precision: str) -> float:
    """Images per second of so many processes at the same time; of one thread, by its own time."""
    command = [sys.executable, __file__, "one", "--recipe", recipe, "--precision", precision]
    command += ["--threads", str(threads), "--seconds", str(seconds)]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) for _ in range(processes)
    ]
    found = [json.loads(process.communicate()[0]) for process in started]
    return sum(one["processor" if processes == threads == 1 else "clock"] for one in found)


def compare_precisions(seconds: float) -> None:
    print("| step of | float32, images/s | bf16, images/s | gain |\n|---|---:|---:|---:|")
    for recipe in RECIPES:
        exact, half = (together(recipe, 1, 1, seconds, one) for one in ("32-true", "bf16-mixed"))
        print(f"| `{recipe}` | {exact:.0f} | {half:.0f} | {half / exact:.2f} |", flush=True)


def compare_jobs(seconds: float) -> None:
    cores = usable_cores()
    print(f"| step of | {cores} threads, images/s | {cores} processes, images/s | ratio |")
    print("|---|---:|---:|---:|")
    for recipe in RECIPES:
        threads = together(recipe, 1, cores, seconds, "32-true")
        jobs = together(recipe, cores, 1, seconds, "32-true")
        print(f"| `{recipe}` | {threads:.0f} | {jobs:.0f} | {jobs / threads:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=("precision", "jobs", "one"))
    parser.add_argument("--seconds", type=float, default=8.0, help="of every measurement")
    parser.add_argument("--recipe")
    parser.add_argument("--precision", default="32-true")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.what == "precision":
        compare_precisions(arguments.seconds)
    elif arguments.what == "jobs":
        compare_jobs(arguments.seconds)
    else:
        is_bf16 = arguments.precision == "bf16-mixed"
        print(json.dumps(train(arguments.recipe, is_bf16, arguments.threads, arguments.seconds)))


if __name__ == "__main__":
    main()
