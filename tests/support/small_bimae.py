"""Bilateral MAE small enough to watch: 16 patches of 4 x 4 pixels, four of them visible."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from remnant.images import ArrayImages, ImageSet, Task
from remnant.memory import CodecConfig, Memory, MemoryConfig, PatchesConfig
from remnant.methods.base import MethodContext
from remnant.methods.bimae import BilateralConfig, BiMAE, BiMAEConfig
from remnant.phases import Batch, OptimizerConfig, Phase, Schedule
from remnant.randomness import generator
from remnant.training.batches import Feeder, Preprocessing
from remnant.training.processes import Processes, TrainingConfig
from remnant.training.trainer import Trainer
from remnant.views.augment import AugmentConfig
from tests.support.literal_bilateral import LiteralBilateralMAE
from tests.support.step_log import Log
from tests.support.worlds import MEAN, NUM_THREADS, STD, seeded

SHAPE = (16, 16, 3)
NUM_PATCHES, NUM_VISIBLE = 16, 4
NETWORK = BilateralConfig(
    patch_size=4, width=16, depth=2, head_width=8, mlp_width=24, fusion_mlp_width=20
)
CONV = BilateralConfig(encoder="conv", patch_size=4, channels=(6, 8), stem_channels=5)
ADAM = OptimizerConfig(name="adam", lr=1e-3)
SHORT = Schedule(epochs=1, batch_size=8, optimizer=ADAM)
PATCHES = PatchesConfig(patch_size=4)


def make_method(
    codec: CodecConfig | dict[str, Any] = PATCHES,
    budget: str = "3images/class",
    *,
    num_classes: int = 0,
    **options: Any,
) -> BiMAE:
    """With `num_classes`, the method stands in its first task and has weights that matter."""
    config = BiMAEConfig.model_validate({"network": NETWORK, "first": SHORT, **options})
    memory = Memory(MemoryConfig.parse({"budget": budget, "codec": codec}), SHAPE, seed=3)
    method = BiMAE(config, MethodContext(SHAPE, (2, 2), memory))
    if num_classes:
        method.network.classifier.grow(num_classes)
        shake(method)
    return method


def shake(method: BiMAE, seed: int = 0) -> None:
    """Give every weight a large value, so that no part can be left out unnoticed."""
    source = seeded(seed)
    for parameter in method.parameters():
        parameter.data.normal_(std=0.3, generator=source)


def literal_twin(method: BiMAE) -> LiteralBilateralMAE:
    config = method.config
    return LiteralBilateralMAE(
        method.network,
        image_shape=SHAPE,
        patch_size=config.network.patch_size,
        head_width=config.network.head_width,
        depth=config.network.depth,
        frequency_per=config.network.frequency_per,
        has_detail_branch=config.has_detail_branch,
        detail_domain=config.detail_domain,
    )


def noise_images(count: int, seed: int = 0) -> Tensor:
    """uint8 [count, 16, 16, 3] of which no two pixels are likely to be alike."""
    source = seeded(seed)
    return torch.randint(0, 256, (count, *SHAPE), dtype=torch.uint8, generator=source)


def noise_set(labels: list[int], seed: int = 0) -> ImageSet:
    images = ArrayImages(noise_images(len(labels), seed))
    return ImageSet(images, torch.tensor(labels), torch.arange(len(labels)))


def make_task(index: int, per_class: int = 6) -> Task:
    """The first or second task of two classes each, of noise."""
    first = 2 * index
    labels = [first + place % 2 for place in range(2 * per_class)]
    names = (f"noise {first}", f"noise {first + 1}")
    return Task(index, 2, first, names, noise_set(labels, seed=index))


def make_batch(size: int = 3, *, seed: int = 0, step: int = 0, **changes: Any) -> Batch:
    """A batch of noise with labels 0, 1, 2, ...; `changes` are fields of `Batch`."""
    views = torch.randn(size, 3, 16, 16, generator=seeded(seed))

    def draw(name: str, *shape: int) -> Tensor:
        return torch.rand(size, *shape, generator=generator(seed, name, step))

    fields: dict[str, Any] = {
        "views": views,
        "labels": torch.arange(size),
        "is_replay": torch.zeros(size, dtype=torch.bool),
        "is_known": None,
        "ids": torch.arange(size),
        "step": step,
        "num_steps": 10,
        "draw": draw,
    }
    return Batch(**{**fields, **changes})


def some_known(count: int, seed: int = 0, num_known: int = NUM_VISIBLE) -> Tensor:
    """bool [count, 4, 4] with `num_known` patches of each image known."""
    noise = torch.rand(count, NUM_PATCHES, generator=seeded(seed))
    return (noise.argsort(dim=1).argsort(dim=1) < num_known).view(count, 4, 4)


def patch_pixels(known: Tensor) -> Tensor:
    """bool [n, 4, 4] of patches -> bool [n, 16, 16] of pixels, one by one."""
    pixels = torch.empty(len(known), 16, 16, dtype=torch.bool)
    for index in range(len(known)):
        for row in range(16):
            for column in range(16):
                pixels[index, row, column] = known[index, row // 4, column // 4]
    return pixels


class Spy:
    """Stands before a function of an object and notes the arguments of every call."""

    def __init__(self, owner: Any, name: str) -> None:
        self.calls: list[tuple[Any, ...]] = []
        function: Callable[..., Any] = getattr(owner, name)

        def noting(*arguments: Any, **named: Any) -> Any:
            self.calls.append(arguments)
            return function(*arguments, **named)

        setattr(owner, name, noting)


@cache
def _one_process() -> Processes:
    return Processes(TrainingConfig(accelerator="cpu", threads=NUM_THREADS))


def make_trainer(
    train: str = "crop-flip", *, seed: int = 7, accumulate: int = 1, every: int = 1000
) -> Trainer:
    augment = AugmentConfig.model_validate({"train": train, "padding": 2})
    return Trainer(
        _one_process(),
        Preprocessing(augment, MEAN, STD),
        seed,
        accumulate=accumulate,
        checkpoint_every_steps=every,
    )


def learn(
    method: BiMAE,
    task: Task,
    trainer: Trainer,
    before_phase: Callable[[Phase], None] = lambda phase: None,
) -> Log:
    """One task from beginning to end."""
    log = Log()
    method.begin_task(task, trainer.reader)
    for phase in method.phases(task, trainer.reader):
        before_phase(phase)
        trainer.fit(method, task, phase, watchers=(log,))
    method.end_task(task, trainer.reader)
    return log


def after_first_task(trainer: Trainer, **options: Any) -> BiMAE:
    """A method with exemplars of the first task, the second not begun."""
    method = make_method(**options)
    learn(method, make_task(0), trainer)
    shake(method)
    return method


def batches_of(phase: Phase, train: str = "crop-flip") -> list[Batch]:
    """What the losses of a phase are given."""
    look = Preprocessing(AugmentConfig.model_validate({"train": train, "padding": 2}), MEAN, STD)
    feeder = Feeder(phase, look, 7, torch.device("cpu"))
    steps = range(feeder.sampler.num_steps)
    return [batch for (batch,) in feeder.batches(steps, range(1), 1)]
