"""What each choice in Bilateral MAE's training step is worth, measured in turns.

    python benchmarks/step_choices.py [ROUNDS]

Prints a Markdown table: the step at paper size (batch 128) with one choice undone or one idea
tried, its time over that of the step as shipped, both in one run. Use an idle machine. What the
allocator is worth cannot be undone within a process: compare with MALLOC_MMAP_MAX_=65536 set, with
which the C library's own settings stand.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from statistics import median
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from remnant.methods import MethodContext
from remnant.methods.bimae import BiMAE, BiMAEConfig
from remnant.models.bilateral import BilateralMAE
from remnant.phases import OptimizerConfig, Schedule
from remnant.planning.calibration import one_thread
from remnant.planning.flops import batch_of_noise
from remnant.training.devices import keep_freed_memory

SHAPE, NUM_CLASSES, BATCH = (32, 32, 3), 10, 128
Choice = Callable[[], AbstractContextManager[object]]


def build(**settings: object) -> BiMAE:
    schedule = Schedule(epochs=1, batch_size=BATCH, optimizer=OptimizerConfig(name="adam", lr=1e-6))
    config = BiMAEConfig.model_validate({"first": schedule, **settings})
    method = BiMAE(config, MethodContext(SHAPE, (NUM_CLASSES,), None))
    method.network.classifier.grow(NUM_CLASSES)
    return method


def step_of(method: BiMAE, **adam: bool) -> Callable[[], None]:
    batch = batch_of_noise(BATCH, SHAPE, NUM_CLASSES)
    optimizer = torch.optim.Adam(method.parameters(), lr=1e-6, **(adam or {"foreach": True}))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        torch.stack([*method.loss(batch).values()]).sum().backward()
        optimizer.step()

    return step


def spelt_out(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    weights = (queries * queries.shape[3] ** -0.5) @ keys.transpose(2, 3)
    return weights.softmax(dim=3) @ values


def decode_apart(
    network: BilateralMAE, main: Tensor, detail: Tensor, visible_ids: Tensor
) -> tuple[Tensor, Tensor]:
    return network.decode(main, visible_ids), network.decode(detail, visible_ids)


def fuse_whole(network: BilateralMAE, main: Tensor, detail: Tensor) -> Tensor:
    tokens = network.fusion(torch.cat([main, detail], dim=1))
    return network.fusion_norm(tokens)[:, 0]


def checkpointed_decode(network: BilateralMAE, tokens: Tensor, visible_ids: Tensor) -> Tensor:
    result = checkpoint(network.decoder, tokens, visible_ids, use_reentrant=False)
    assert isinstance(result, Tensor)
    return result


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    keep_freed_memory()
    shipped = build()
    step, separate = step_of(shipped), step_of(build(reuse_main_as_x1=False))
    fused = step_of(shipped, fused=True)
    attention = "scaled_dot_product_attention"
    works: dict[str, tuple[Callable[[], None], Choice]] = {
        "as shipped": (step, nullcontext),
        "a separate pass for x1": (separate, nullcontext),
        "a full fusion block": (step, lambda: patch.object(BilateralMAE, "fuse", fuse_whole)),
        "one decode at a time": (
            step,
            lambda: patch.object(BilateralMAE, "decode_both", decode_apart),
        ),
        "attention spelt out": (step, lambda: patch.object(functional, attention, spelt_out)),
        "decoder activations computed twice": (
            step,
            lambda: patch.object(BilateralMAE, "decode", checkpointed_decode),
        ),
        "fused Adam": (fused, nullcontext),
        "one thread": (step, one_thread),
    }
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for round_ in range(rounds + 1):
        for name, (work, choice) in works.items():
            with ExitStack() as stack:
                stack.enter_context(choice())
                began = time.perf_counter()
                work()
                if round_ > 0:
                    seconds[name].append(time.perf_counter() - began)
    print("| step | seconds | of the shipped step |\n| --- | --- | --- |")
    base = median(seconds["as shipped"])
    for name, values in seconds.items():
        ratios = [one / first for one, first in zip(values, seconds["as shipped"], strict=True)]
        print(f"| {name} | {median(values):.2f} | {median(ratios):.2f} |")
    print(f"\n{torch.get_num_threads()} threads, {rounds} rounds, {BATCH / base:.1f} images/s.")


if __name__ == "__main__":
    main()
