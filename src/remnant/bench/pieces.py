"""Parts of a run beside its training steps, to be timed."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from remnant.bench.steps import BATCH, NUM_CLASSES, SHAPE
from remnant.bench.stopwatch import Work
from remnant.memory import CODECS, Candidate, Codec
from remnant.methods.bimae import BiMAE
from remnant.phases import OptimizerConfig
from remnant.planning.flops import batch_of_noise
from remnant.randomness import generator
from remnant.training.checkpoints import Checkpoints, Point
from remnant.training.network_state import Arrays, training_state
from remnant.training.optimizers import build_optimizer
from remnant.views.augment import AugmentConfig, train_views

CODED = 16  # images at a time; the slowest codecs do 50 in a second


def network_works(method: BiMAE) -> dict[str, Work]:
    """Prediction, completion of exemplars, and augmentation, of one batch."""
    network, views = method.network, batch_of_noise(BATCH, SHAPE, NUM_CLASSES).views
    visible_ids = network.visible_ids(torch.rand(BATCH, network.num_patches), 0.75)
    images, draws, scale = clouds(BATCH), torch.rand(BATCH, 3), (0.5,) * 3
    no_gradient = torch.no_grad()
    return {
        "predict": no_gradient(lambda: network.scores(views)),
        "complete": no_gradient(lambda: network.complete(views, visible_ids)),
        "augment": lambda: train_views(images, None, draws, AugmentConfig(), scale, scale),
    }


def codec_works() -> dict[str, Work]:
    """For every codec with its default settings: encoding `CODED` images, and decoding them."""
    works: dict[str, Work] = {}
    candidates = [Candidate(image) for image in clouds(CODED).numpy()]
    for name, codec in CODECS.items():
        works |= _works_of(name, codec(codec.Config.parse({}), SHAPE), candidates)
    return works


def _works_of(name: str, codec: Codec, candidates: list[Candidate]) -> dict[str, Work]:
    exemplars = [codec.encode(one, generator(0, "bench")) for one in candidates]
    return {
        f"encode {name}": lambda: [codec.encode(one, generator(0, "bench")) for one in candidates],
        f"decode {name}": lambda: [codec.decode(one) for one in exemplars],
    }


def _state_of(method: BiMAE) -> Arrays:
    """The contents of a checkpoint in the middle of a phase: network and optimiser."""
    parameters = list(method.parameters())
    optimizer = build_optimizer(OptimizerConfig(name="adam", lr=1e-6), parameters)
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    return training_state(method, [optimizer])


def checkpoint_work(method: BiMAE, folder: Path) -> tuple[Work, int]:
    """Writing a checkpoint into `folder`, and its bytes."""
    arrays, checkpoints = _state_of(method), Checkpoints(folder)
    num_bytes = sum(array.nbytes for array in arrays.values())
    return lambda: checkpoints.save(Point(0, 0, 1), arrays, {}), num_bytes


def clouds(count: int) -> Tensor:
    """Smooth images, uint8 [count, *SHAPE], that codecs treat more like photographs than noise."""
    rng = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, SHAPE[2], 6, 6, generator=rng)
    smooth = functional.interpolate(coarse, SHAPE[:2], mode="bicubic").clamp(0, 1)
    return (smooth * 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
