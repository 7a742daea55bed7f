"""A run in miniature: its first tasks with a few images of noise, to count what each image takes.

All verbs of the method run for real, teacher, tuning and completions included; of training, one
step of each kind is counted. What an image takes does not depend on how many there are, so that
the real numbers of images give what the run will take (`planning.workload`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from remnant.config import RunConfig
from remnant.data import DatasetFacts
from remnant.images import ArrayImages, Images, ImageSet, Shape, Task
from remnant.memory import Memory, MemoryConfig
from remnant.memory.codecs.rates import DEFAULT_QUALITY, RateConfig
from remnant.methods import Method, build_method
from remnant.planning.phase_work import PhaseWork, count_per_class, count_phase
from remnant.planning.shape_flops import ShapeFlops
from remnant.training.batches import Preprocessing
from remnant.training.processes import Processes
from remnant.training.reader import ViewReader

_TASKS = 3  # that are rehearsed: the first, the second, and one more to see how a network grows
_CLASSES = 2  # of each task; more would only widen the classifier
_EXEMPLARS = 10  # of a class, about; where their sizes vary, images of a class


@dataclass(frozen=True)
class TaskWork:
    """What one task takes: its phases, and FLOPs per image for what is done between them."""

    phases: list[PhaseWork]
    per_new_image: float = 0.0  # features for herding, above all
    per_exemplar: float = 0.0  # of all classes seen
    per_old_exemplar: float = 0.0  # completions


@dataclass(frozen=True)
class Rehearsal:
    """The first tasks of a run, with this many images and exemplars of each class."""

    tasks: list[TaskWork]
    images_per_class: int
    exemplars_per_class: float


def rehearse(config: RunConfig, known: DatasetFacts, num_tasks: int) -> Rehearsal:
    """Count what the first tasks of a run take; needs no data, and seconds.

    The last rehearsal is kept: runs of a study often differ in the number of tasks alone.
    """
    shape = known.image_shape
    sizes = [_CLASSES] * min(num_tasks, _TASKS)
    memory = _small_memory(config.memory, shape)
    plan = config.model_copy(update={"memory": memory})
    text = plan.model_dump_json(exclude={"recipe", "data", "stream", "training"})
    key = (text, shape, known.mean, known.std, len(sizes))
    if key not in _LAST:
        _LAST.clear()
        look = Preprocessing(config.augment, known.mean, known.std)
        _LAST[key] = _rehearse(plan, shape, sizes, look)
    return _LAST[key]


_LAST: dict[tuple[Any, ...], Rehearsal] = {}


def _rehearse(
    plan: RunConfig, shape: tuple[int, int, int], sizes: list[int], look: Preprocessing
) -> Rehearsal:
    """More images than exemplars, so that sets of the two can be told apart.

    How many exemplars fit is not always known before: a method may choose a coarser codec.
    """
    found, per_class = None, _EXEMPLARS
    while found is None or found.exemplars_per_class > 0.7 * found.images_per_class:
        found = _rehearse_with(plan, shape, sizes, look, per_class)
        per_class *= 2
    return found


def _rehearse_with(
    plan: RunConfig,
    shape: tuple[int, int, int],
    sizes: list[int],
    look: Preprocessing,
    per_class: int,
) -> Rehearsal:
    """With so many images of a class, where sizes of exemplars vary."""
    with torch.random.fork_rng(devices=[]):
        method = build_method(plan, shape, sizes)
        held = method.memory.capacity(_CLASSES) if method.memory is not None else 0
        per_class = per_class if held is None else 2 * held + 2
        reader = _CountingReader(look, plan.seed)
        works = [_learn(method, task, reader, look) for task in _tasks(sizes, shape, per_class)]
        counts = [] if method.memory is None else method.memory.counts
    return Rehearsal(works, per_class, sum(counts) / len(counts) if counts else 0.0)


def _small_memory(config: MemoryConfig | None, shape: tuple[int, int, int]) -> MemoryConfig | None:
    """A memory of the same kind for about ten exemplars of a class."""
    if config is None:
        return None
    if isinstance(config.codec, RateConfig) and config.codec.quality is not None:
        # Coarse ones would all fit. Arithmetic does not depend on what the codec loses.
        usual = config.codec.model_copy(update={"quality": DEFAULT_QUALITY})
        config = config.model_copy(update={"codec": usual})

    def holding(num_images: int) -> MemoryConfig:
        return config.model_copy(update={"budget": f"{num_images}images/class"})

    held = Memory(holding(_EXEMPLARS), shape, seed=0, num_classes=_CLASSES).capacity(_CLASSES)
    # Noise is hard to code: two images hold three or four.
    return holding(2) if held is None else holding(max(2, -(-(_EXEMPLARS**2) // max(1, held))))


def _tasks(sizes: list[int], shape: tuple[int, int, int], per_class: int) -> Iterator[Task]:
    rng = torch.Generator().manual_seed(0)
    for index, size in enumerate(sizes):
        first = sum(sizes[:index])
        labels = torch.arange(first, first + size).repeat_interleave(per_class)
        pixels = torch.randint(256, (len(labels), *shape), generator=rng).to(torch.uint8)
        images = ImageSet(ArrayImages(pixels), labels, torch.arange(len(labels)))
        yield Task(index, len(sizes), first, tuple("?" * size), images)


def _learn(
    method: Method[Any], task: Task, reader: _CountingReader, look: Preprocessing
) -> TaskWork:
    """One task without training: what its phases would take, and what is done between them."""
    reader.begin(task)
    phases: list[PhaseWork] = []
    method.eval()
    with reader.counting():
        method.begin_task(task, reader)
    method.eval()
    found = method.shown_phases(task, reader)
    while True:
        with reader.counting():
            phase = next(found, None)
        if phase is None:
            break
        phases.append(count_phase(method, task, phase, look))
        method.eval()
    with reader.counting():
        method.end_task(task, reader)
    old = task.num_old_classes
    exemplars = sum(method.memory.counts) if method.memory is not None else 0
    num_old = sum(method.memory.counts[:old]) if method.memory is not None else 0
    return TaskWork(
        phases,
        reader.on_new / len(task.train),
        reader.on_exemplars / max(1, exemplars),
        reader.elsewhere / max(1, num_old),
    )


class _Alone(Processes):
    """This process on its CPU; nothing is launched."""

    def __init__(self) -> None:
        pass

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def rank(self) -> int:
        return 0

    @property
    def count(self) -> int:
        return 1

    def autocast(self) -> AbstractContextManager[None]:
        return nullcontext()


class _CountingReader(ViewReader):
    """A reader that applies a function to two images and answers for all."""

    def __init__(self, look: Preprocessing, seed: int) -> None:
        super().__init__(_Alone(), look, seed)
        self._task: Task | None = None

    def begin(self, task: Task) -> None:
        self._task = task
        self.on_new = self.on_exemplars = self.elsewhere = 0.0

    def apply(
        self, function: Callable[[Tensor], Tensor], images: ImageSet, *, mirrored: bool = False
    ) -> Tensor:
        assert self._task is not None, "`begin` comes first"
        some = images.select(torch.arange(min(2, len(images))))
        with ShapeFlops() as count:
            output = super().apply(function, some, mirrored=mirrored)
        flops = count.flops / len(some) * len(images)
        # A set of data has more than half of the images of a class, one of exemplars has fewer.
        half = len(self._task.train) / self._task.num_new_classes / 2
        if (count_per_class(images, self._task)[0] or 0) > half:
            self.on_new += flops
        else:
            self.on_exemplars += flops
        self.elsewhere -= count.flops  # counted from outside as well
        return output[:1].expand(len(images), *output.shape[1:]).clone()

    def hold(self, batches: Iterable[Tensor], labels: Tensor, shape: Shape) -> Images:
        """What completing new images takes grows with these, not with the exemplars."""
        assert self._task is not None, "`begin` comes first"
        with ShapeFlops() as count:
            held = super().hold(batches, labels, shape)
        if bool((labels >= self._task.num_old_classes).all()):
            self.on_new += count.flops
            self.elsewhere -= count.flops
        return held

    def counting(self) -> AbstractContextManager[None]:
        """Within the block, whatever else is computed counts too."""
        return _Elsewhere(self)


class _Elsewhere(AbstractContextManager[None]):
    def __init__(self, reader: _CountingReader) -> None:
        self._reader = reader
        self._count = ShapeFlops()

    def __enter__(self) -> None:
        self._count.__enter__()

    def __exit__(self, *stopped: Any) -> None:
        self._count.__exit__(*stopped)
        self._reader.elsewhere += self._count.flops
