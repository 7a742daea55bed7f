from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from remnant.images import ArrayImages, ImageSet, Task
from remnant.memory import Memory, MemoryConfig
from remnant.methods import base
from remnant.methods.base import MethodContext
from tests.support.pixel_method import Pixels, PixelsConfig, schedule
from tests.support.small_bimae import make_task, make_trainer
from tests.support.small_residual import learn_task, make_residual
from tests.support.worlds import filled_images

SHAPE = (16, 16, 3)


def remember(config: MemoryConfig, tasks: list[list[int]]) -> Memory:
    """The memory after tasks with so many images of each class."""
    memory = Memory(config, SHAPE, seed=0)
    sizes = tuple(len(task) for task in tasks)
    method = Pixels(PixelsConfig(first=schedule()), MethodContext(SHAPE, sizes, memory))
    for index, counts in enumerate(tasks):
        first = sum(sizes[:index])
        labels = torch.arange(first, first + len(counts)).repeat_interleave(torch.tensor(counts))
        images = ArrayImages(filled_images(labels, seed=index))
        train = ImageSet(images, labels, torch.arange(len(labels)))
        names = tuple(f"grey {first + new}" for new in range(len(counts)))
        task = Task(index, len(tasks), first, names, train)
        method.remember(task, make_trainer().reader)
    return memory


@pytest.mark.parametrize("selection", ["herding", "random"])
@pytest.mark.parametrize(
    ("budget", "tasks", "counts"),
    [
        ("20images", [[30, 30], [30, 30]], [5, 5, 5, 5]),
        ("22images", [[30, 30], [30, 30]], [5, 5, 5, 5]),  # floor(M / C)
        ("20images", [[30, 30], [2, 2]], [8, 8, 2, 2]),  # few new images cost the old ones few
        ("20images", [[2, 30], [30]], [2, 9, 9]),
        ("5images/class", [[2, 30], [30]], [2, 5, 5]),
    ],
)
def test_the_memory_is_filled_from_every_task(
    budget: str, tasks: list[list[int]], counts: list[int], selection: str
) -> None:
    config = MemoryConfig.model_validate({"budget": budget, "selection": selection})
    memory = remember(config, tasks)
    assert memory.counts == counts
    assert memory.class_names == [f"grey {label}" for label in range(len(counts))]


def test_exemplars_of_varying_size_fill_the_budget() -> None:
    config = MemoryConfig.model_validate({"budget": "3KB", "codec": "webp"})
    memory = remember(config, [[200, 3], [200, 200]])
    assert memory.counts[1] == 3
    largest = max(len(one.payload) + 2 for label in (0, 2, 3) for one in memory.exemplars(label))
    assert 3_000 - 2 * largest < memory.nbytes <= 3_000


@pytest.mark.parametrize(
    ("name", "options", "sees_coded"),
    [
        ("mecil", {"codec": "downscaled"}, True),
        ("mrdc", {"codec": "jpeg", "base": "er"}, True),
        ("er", {"codec": "downscaled"}, False),
    ],
)
def test_low_fidelity_exemplars_are_herded_by_their_own_look(
    name: str, options: dict[str, Any], sees_coded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Tensor] = []
    select = base.select

    def noting(how: Any, features: Tensor, *others: Any) -> Tensor:
        found.append(features)
        return select(how, features, *others)

    monkeypatch.setattr(base, "select", noting)
    trainer, method, task = make_trainer(), make_residual(name, **options), make_task(0)
    learn_task(method, 0, trainer)
    for label, features in enumerate(found):
        images = task.train.of_class(label)
        pixels = images.images.read(torch.arange(len(images))).numpy()
        coded = trainer.reader.apply(method.features, method.memory.present(pixels))
        originals = trainer.reader.apply(method.features, images)
        torch.testing.assert_close(features, coded if sees_coded else originals)
        assert not torch.allclose(coded, originals)
