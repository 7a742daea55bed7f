"""The training steps that are timed: Bilateral MAE, ours and literal, and ResNets."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from remnant.bench.literal import literal_loss
from remnant.bench.stopwatch import Work
from remnant.methods import MethodContext
from remnant.methods.bimae import BilateralConfig, BiMAE, BiMAEConfig
from remnant.models.bilateral import BilateralMAE
from remnant.models.resnet import ResNet
from remnant.phases import OptimizerConfig, Schedule
from remnant.planning.flops import batch_of_noise, count_flops
from remnant.training.optimizers import build_optimizer

SHAPE = (32, 32, 3)
BATCH = 128
NUM_CLASSES = 10
PAPER = BilateralConfig()
MINI = BilateralConfig(width=128, mlp_width=512, fusion_mlp_width=512)

_ADAM = OptimizerConfig(name="adam", lr=1e-6)


def build_bimae(network: BilateralConfig) -> BiMAE:
    """Bilateral MAE in its first task."""
    schedule = Schedule(epochs=1, batch_size=BATCH, optimizer=_ADAM)
    config = BiMAEConfig(network=network, first=schedule)
    method = BiMAE(config, MethodContext(SHAPE, (NUM_CLASSES,), None))
    method.network.classifier.grow(NUM_CLASSES)
    return method


def bimae_step(method: BiMAE) -> Work:
    batch = batch_of_noise(BATCH, SHAPE, NUM_CLASSES)
    return _step(method, lambda: torch.stack([*method.loss(batch).values()]).sum())


def literal_step(method: BiMAE) -> Work:
    """The same losses of the same network, computed literally."""
    batch, network = batch_of_noise(BATCH, SHAPE, NUM_CLASSES), method.network
    assert isinstance(network, BilateralMAE), "the literal losses are those of the paper's network"
    draw = torch.rand(3, BATCH, network.num_patches)
    noise = (draw[0], draw[1], draw[2])
    return _step(method, lambda: literal_loss(network, batch.views, batch.labels, noise))


def resnet_step(network: ResNet) -> Work:
    whole = nn.Sequential(network, nn.Linear(network.width, NUM_CLASSES))
    batch = batch_of_noise(BATCH, SHAPE, NUM_CLASSES)
    return _step(whole, lambda: nn.functional.cross_entropy(whole(batch.views), batch.labels))


def resnet_flops(network: ResNet) -> float:
    """FLOPs of one training step per image, without the classifier, which is negligible."""
    views = batch_of_noise(2, SHAPE, NUM_CLASSES).views
    return count_flops(lambda: network(views).sum().backward()) / len(views)


def _step(network: nn.Module, loss: Callable[[], Tensor]) -> Work:
    optimizer = build_optimizer(_ADAM, list(network.parameters()))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()

    return step
