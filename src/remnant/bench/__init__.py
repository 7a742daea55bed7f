"""`remnant bench`: training speed on this processor, as ratios measured in one run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from remnant.bench.live_memory import peak_bytes
from remnant.bench.overhead import overhead_fraction
from remnant.bench.pieces import CODED, checkpoint_work, codec_works, network_works
from remnant.bench.steps import (
    BATCH,
    MINI,
    NUM_CLASSES,
    PAPER,
    SHAPE,
    bimae_step,
    build_bimae,
    literal_step,
    resnet_flops,
    resnet_step,
)
from remnant.bench.stopwatch import Work, measure
from remnant.memory import CODECS
from remnant.methods.bimae import BiMAE
from remnant.models.resnet import ResNet, resnet18, resnet_cifar
from remnant.planning.flops import predict_flops, train_flops
from remnant.training.processes import Processes, TrainingConfig

_GEMM_SIDE = 2048


def bench(
    *, repeats: int = 4, overhead_steps: int = 20, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """The results of `remnant bench`; docs/performance.md explains every key.

    Args:
        repeats: Number of rounds over which medians are taken.
        overhead_steps: Number of training steps over which the overhead is measured.
        say: Called with a description of what is measured next.
    """
    config = TrainingConfig(accelerator="cpu")
    processes = Processes(config)  # first: sets threads and allocator as in a run
    torch.manual_seed(0)
    methods = {"paper": build_bimae(PAPER), "mini": build_bimae(MINI)}
    resnets = {"resnet32": resnet_cifar(32), "resnet18": resnet18()}
    with tempfile.TemporaryDirectory() as folder:
        save, checkpoint_bytes = checkpoint_work(methods["paper"], Path(folder))
        workloads = _workloads(methods, resnets) | {"checkpoint": save}
        say(f"{len(workloads)} workloads in {repeats} rounds")
        seconds = measure(workloads, repeats)
    say("the peak memory of a step")
    peaks = {name: peak_bytes(workloads[name]) for name in ("step_paper", "literal_paper")}
    say(f"the overhead of {overhead_steps} training steps")
    overhead = overhead_fraction(
        methods["paper"], processes, config, overhead_steps, seconds["checkpoint"]
    )
    gemm = 2 * _GEMM_SIDE**3 / seconds["gemm"] / 1e9
    steps = {f"step_{n}": _step_figures(m, seconds, n, gemm) for n, m in methods.items()}
    steps["step_paper"] |= {
        "peak_memory_bytes": peaks["step_paper"],
        "peak_memory_over_literal": peaks["step_paper"] / peaks["literal_paper"],
    }
    return {
        "threads": processes.threads,
        "gemm_gflops": gemm,
        **steps,
        **{name: _speed(resnet_flops(one), seconds[name], gemm) for name, one in resnets.items()},
        "predict_images_per_second": BATCH / seconds["predict"],
        "complete_images_per_second": BATCH / seconds["complete"],
        "augment_images_per_second": BATCH / seconds["augment"],
        "codecs": {name: _codec_figures(name, seconds) for name in CODECS},
        "checkpoint": {
            "seconds": seconds["checkpoint"],
            "megabytes": checkpoint_bytes / 1e6,
            "megabytes_per_second": checkpoint_bytes / 1e6 / seconds["checkpoint"],
        },
        "overhead_fraction": overhead,
    }


def _workloads(methods: dict[str, BiMAE], resnets: dict[str, ResNet]) -> dict[str, Work]:
    matrices = torch.rand(2, _GEMM_SIDE, _GEMM_SIDE)
    workloads: dict[str, Work] = {"gemm": lambda: matrices[0] @ matrices[1]}
    for name, method in methods.items():
        workloads |= {f"step_{name}": bimae_step(method), f"literal_{name}": literal_step(method)}
    workloads |= {name: resnet_step(network) for name, network in resnets.items()}
    return workloads | network_works(methods["paper"]) | codec_works()


def _step_figures(
    method: BiMAE, seconds: dict[str, float], scale: str, gemm: float
) -> dict[str, float]:
    return {
        **_speed(train_flops(method, SHAPE, NUM_CLASSES), seconds[f"step_{scale}"], gemm),
        "speedup_over_literal": seconds[f"literal_{scale}"] / seconds[f"step_{scale}"],
        "predict_gflop_per_image": predict_flops(method, SHAPE) / 1e9,
    }


def _speed(flops: float, seconds: float, gemm: float) -> dict[str, float]:
    speed = BATCH / seconds
    return {
        "images_per_second": speed,
        "gflop_per_image": flops / 1e9,
        "fraction_of_gemm": speed * flops / 1e9 / gemm,
    }


def _codec_figures(name: str, seconds: dict[str, float]) -> dict[str, float]:
    return {
        "encode_exemplars_per_second": CODED / seconds[f"encode {name}"],
        "decode_exemplars_per_second": CODED / seconds[f"decode {name}"],
    }
