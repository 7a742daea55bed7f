"""Speed on this machine, as ratios measured in one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from remnant.augment import AugmentConfig, train_views
from remnant.bench.literal import literal_loss
from remnant.bench.overhead import overhead_fraction
from remnant.bench.stopwatch import Work, measure
from remnant.contracts import Batch, OptimizerConfig, Schedule
from remnant.costs import batch_of_noise, count_flops, predict_flops, train_flops
from remnant.memory import Memory, MemoryConfig
from remnant.methods import World
from remnant.methods.bimae import BilateralConfig, BiMAE, BiMAEConfig
from remnant.models.resnet import ResNet, resnet18, resnet_cifar
from remnant.training.processes import TrainingConfig

_SHAPE = (32, 32, 3)
_NUM_CLASSES = 10
_GEMM_SIDE = 2048
_BATCH = 128
_SMALL = BilateralConfig(width=128, mlp_width=512, fusion_mlp_width=512)


def bench(
    *, repeats: int = 5, overhead_steps: int = 20, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """All figures of `remnant bench`; `say` hears what is being measured.

    Args:
        repeats: Rounds over which medians are taken.
        overhead_steps: Training steps over which the share outside the step is measured.
    """
    torch.manual_seed(0)
    paper, mini = _method(BilateralConfig()), _method(_SMALL)
    matrices = torch.rand(2, _GEMM_SIDE, _GEMM_SIDE)
    works: dict[str, Work] = {
        "gemm": lambda: matrices[0] @ matrices[1],
        "step_paper": _step(paper),
        "literal_paper": _literal_step(paper),
        "step_mini": _step(mini),
        "literal_mini": _literal_step(mini),
        **_other_works(paper),
        "resnet32": _resnet_step(resnet_cifar(32)),
        "resnet18": _resnet_step(resnet18()),
    }
    say(f"{len(works)} pieces of work in {repeats} rounds")
    seconds = measure(works, repeats)
    gemm = 2 * _GEMM_SIDE**3 / seconds["gemm"] / 1e9
    say(f"{overhead_steps} training steps, for what is spent around them")
    overhead = overhead_fraction(paper, TrainingConfig(), overhead_steps)
    return {
        "threads": torch.get_num_threads(),
        "gemm_gflops": gemm,
        "step_paper": _step_figures(paper, seconds, "paper", gemm),
        "step_mini": _step_figures(mini, seconds, "mini", gemm),
        "predict_images_per_second": _BATCH / seconds["predict"],
        "complete_images_per_second": _BATCH / seconds["complete"],
        "augment_images_per_second": _BATCH / seconds["augment"],
        "encode_exemplars_per_second": _BATCH / seconds["encode"],
        "decode_exemplars_per_second": _BATCH / seconds["decode"],
        "resnet32": _resnet_figures(resnet_cifar(32), seconds["resnet32"], gemm),
        "resnet18": _resnet_figures(resnet18(), seconds["resnet18"], gemm),
        "overhead_fraction": overhead,
    }


def _method(network: BilateralConfig) -> BiMAE:
    optimizer = OptimizerConfig(name="adam", lr=1e-4)
    schedule = Schedule(epochs=1, batch_size=_BATCH, optimizer=optimizer)
    method = BiMAE(BiMAEConfig(network=network, first=schedule), World(_SHAPE, (10,), None))
    method.network.classifier.grow(_NUM_CLASSES)
    return method


def _optimized(network: torch.nn.Module, loss: Callable[[], torch.Tensor]) -> Work:
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-6, foreach=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()

    return step


def _step(method: BiMAE) -> Work:
    batch = _batch()
    return _optimized(method, lambda: torch.stack([*method.loss(batch).values()]).sum())


def _literal_step(method: BiMAE) -> Work:
    batch, network = _batch(), method.network
    draw = torch.rand(3, _BATCH, network.num_patches)
    noise = (draw[0], draw[1], draw[2])
    return _optimized(method, lambda: literal_loss(network, batch.views, batch.labels, noise))


def _batch() -> Batch:
    return batch_of_noise(_BATCH, _SHAPE, _NUM_CLASSES)


def _other_works(method: BiMAE) -> dict[str, Work]:
    batch, network = _batch(), method.network
    visible_ids = network.visible_ids(torch.rand(_BATCH, network.num_patches), 0.75)
    images = torch.randint(0, 256, (_BATCH, *_SHAPE), dtype=torch.uint8)
    draws = torch.rand(_BATCH, 3)
    scale = (0.5,) * 3
    config = MemoryConfig.model_validate({"budget": f"{_BATCH}images/class", "codec": "patches"})

    def remember() -> Memory:
        memory = Memory(config, _SHAPE, seed=0)
        memory.add_class(0, "noise", images.numpy())
        return memory

    stored = remember()
    no_gradient = torch.no_grad()
    return {
        "predict": no_gradient(lambda: network.scores(batch.views)),
        "complete": no_gradient(lambda: network.complete(batch.views, visible_ids)),
        "augment": lambda: train_views(images, None, draws, AugmentConfig(), scale, scale),
        "encode": remember,
        "decode": stored.images,
    }


def _resnet_step(network: ResNet) -> Work:
    head = torch.nn.Linear(network.width, _NUM_CLASSES)
    batch = _batch()
    whole = torch.nn.Sequential(network, head)
    return _optimized(
        whole, lambda: torch.nn.functional.cross_entropy(whole(batch.views), batch.labels)
    )


def _step_figures(
    method: BiMAE, seconds: dict[str, float], scale: str, gemm: float
) -> dict[str, float]:
    flops = train_flops(method, _SHAPE, _NUM_CLASSES)
    speed = _BATCH / seconds[f"step_{scale}"]
    return {
        "images_per_second": speed,
        "gflop_per_image": flops / 1e9,
        "fraction_of_gemm": speed * flops / 1e9 / gemm,
        "speedup_over_literal": seconds[f"literal_{scale}"] / seconds[f"step_{scale}"],
        "predict_gflop_per_image": predict_flops(method, _SHAPE) / 1e9,
    }


def _resnet_figures(network: ResNet, seconds: float, gemm: float) -> dict[str, float]:
    views = torch.zeros(2, *_SHAPE[2:], *_SHAPE[:2])
    flops = count_flops(lambda: network(views).sum().backward()) / len(views)
    speed = _BATCH / seconds
    return {
        "images_per_second": speed,
        "gflop_per_image": flops / 1e9,
        "fraction_of_gemm": speed * flops / 1e9 / gemm,
    }
