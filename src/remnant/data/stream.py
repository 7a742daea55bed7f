"""An ImageSet, a class order and task sizes make a TaskStream: iterate to train, slice to test.

Labels of a stream are positions in its class order: the first task learns labels 0, 1, and so on.
Images are selected only when their task is reached, so a run cannot touch those of later tasks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import torch
from pydantic import Field, PositiveInt, field_validator, model_validator
from torch import Tensor

from remnant.data.class_orders import check_order_name, named_order
from remnant.data.spec import DatasetFacts
from remnant.errors import InputError
from remnant.images import ImageSet, Task
from remnant.settings import Settings


class StreamConfig(Settings):
    """Which classes come in which task; at most one of the last three says how they are split."""

    order: str | tuple[int, ...] = "default"  # a name, "seed:N", or original class indices
    num_classes: PositiveInt | None = None  # only the first so many of the order
    num_tasks: PositiveInt | None = None  # equal sizes; unset: as the data set is usually split
    # How many classes each task brings.
    task_sizes: tuple[PositiveInt, ...] | None = Field(default=None, min_length=1)
    # The original class indices of each task.
    task_classes: tuple[tuple[int, ...], ...] | None = Field(default=None, min_length=1)

    @field_validator("order")
    @classmethod
    def _check_order(cls, order: str | tuple[int, ...]) -> str | tuple[int, ...]:
        if isinstance(order, str):
            check_order_name(order)
        else:
            _check_distinct("stream.order", order)
        return order

    @model_validator(mode="after")
    def _check_split(self) -> StreamConfig:
        names = ("num_tasks", "task_sizes", "task_classes")
        given = [f"stream.{name}" for name in names if getattr(self, name) is not None]
        if len(given) > 1:
            raise InputError(f"a stream is split one way; got {' and '.join(given)}. Keep one.")
        if self.task_classes is not None:
            if self.order != "default" or self.num_classes is not None:
                raise InputError(
                    "stream.task_classes already says which classes come and when. Remove "
                    "stream.order and stream.num_classes, or use stream.task_sizes."
                )
            if not all(self.task_classes):
                raise InputError("stream.task_classes must give every task at least one class.")
            _check_distinct("stream.task_classes", sum(self.task_classes, ()))
        return self


def resolve_order(config: StreamConfig, num_classes: int, default_order: str) -> list[int]:
    """Original indices of the classes to learn, in learning order.

    Args:
        num_classes: How many classes the data set has.
        default_order: The name of the order that `order="default"` stands for.

    Raises:
        InputError: The data set does not have these classes, or the order is not made for it.
    """
    if config.task_classes is not None:
        name, order = "task_classes", [index for task in config.task_classes for index in task]
    elif isinstance(config.order, str):
        chosen = default_order if config.order == "default" else config.order
        name, order = "order", named_order(chosen, num_classes)
    else:
        name, order = "order", list(config.order)
    for index in order:
        if not 0 <= index < num_classes:
            raise InputError(
                f"stream.{name} must hold class indices from 0 to {num_classes - 1}; got {index}."
            )
    if config.num_classes is not None and config.num_classes > len(order):
        raise InputError(
            f"stream.num_classes must be at most {len(order)}, the number of classes in the "
            f"order; got {config.num_classes}."
        )
    return order[: config.num_classes]


def resolve_tasks(config: StreamConfig, dataset: DatasetFacts) -> list[list[int]]:
    """Original class indices task by task; needs no data.

    Raises:
        InputError: As `resolve_order`, or the classes cannot be split as configured.
    """
    order = resolve_order(config, dataset.num_classes, dataset.default_order)
    if config.task_classes is not None:
        sizes = [len(task) for task in config.task_classes]
    elif config.task_sizes is not None:
        sizes = list(config.task_sizes)
    else:
        sizes = _sizes(len(order), config.num_tasks, dataset)
    if sum(sizes) != len(order):
        raise InputError(
            f"stream.task_sizes must add up to the {len(order)} classes of the stream; they add "
            f"up to {sum(sizes)}. Change them, or set stream.num_classes."
        )
    return [order[first:last] for first, last in pairwise(accumulate(sizes, initial=0))]


def task_sizes(config: StreamConfig, dataset: DatasetFacts) -> list[int]:
    """Number of new classes of each task; needs no data.

    Raises what `resolve_tasks` raises.
    """
    return [len(task) for task in resolve_tasks(config, dataset)]


class TaskStream:
    """Tasks with training images, and the test images of the classes seen so far."""

    def __init__(
        self,
        train: ImageSet,
        test: ImageSet,
        class_names: Sequence[str],
        tasks: Sequence[Sequence[int]],
    ) -> None:
        """Labels and `class_names` go by original class index, as do the class lists in `tasks`.

        Raises:
            InputError: A class of the stream is not in the data, or has no image to train or test.
        """
        self.order = [index for task in tasks for index in task]  # original indices
        if max(self.order) >= len(class_names):
            raise InputError(
                f"the stream has class {max(self.order)}; the data has {len(class_names)} classes, "
                "counted from 0. Complete the data set, or set stream.order or stream.task_classes."
            )
        self.task_sizes = [len(task) for task in tasks]
        self.class_names = [class_names[index] for index in self.order]  # in learning order
        self._starts = list(accumulate(self.task_sizes, initial=0))  # first label of each task
        position = torch.full((len(class_names),), -1, dtype=torch.int64)
        position[self.order] = torch.arange(len(self.order))
        self._train, self._train_labels = train, position[train.labels]  # -1: not in the stream
        self._test, self._test_labels = test, position[test.labels]
        # Sorted by label, so that the tests after a task begin with those after the one before.
        self._test_ranking = torch.argsort(self._test_labels, stable=True)
        self._check_images(self._train_labels, "training")
        self._check_images(self._test_labels, "test")

    def __len__(self) -> int:
        return len(self.task_sizes)

    def __iter__(self) -> Iterator[Task]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Task:
        index = range(len(self))[index]
        first, last = self._starts[index], self._starts[index + 1]
        is_new = (self._train_labels >= first) & (self._train_labels < last)
        positions = torch.nonzero(is_new).flatten()
        return Task(
            index=index,
            num_tasks=len(self),
            num_old_classes=first,
            class_names=tuple(self.class_names[first:last]),
            train=self._train.select(positions).with_labels(self._train_labels[positions]),
        )

    @property
    def task_of_label(self) -> list[int]:
        """For each label of the stream, the index of the task that teaches it."""
        return [bisect_right(self._starts, label) - 1 for label in range(len(self.order))]

    def seen_tests(self, task: Task) -> ImageSet:
        """Test images of all classes seen after `task`, by label, then as on disk."""
        return self._tests(0, task.num_seen_classes)

    def tests_of(self, index: int) -> ImageSet:
        """Test images of the classes of one task, learned or not, in the order of `seen_tests`."""
        return self._tests(self._starts[index], self._starts[index + 1])

    def _tests(self, first: int, last: int) -> ImageSet:
        """Those of labels `first` to `last` - 1."""
        labels = self._test_labels[self._test_ranking]
        positions = self._test_ranking[(labels >= first) & (labels < last)]
        return self._test.select(positions).with_labels(self._test_labels[positions])

    def _check_images(self, labels: Tensor, split: str) -> None:
        counts = torch.bincount(labels[labels >= 0], minlength=len(self.order)).tolist()
        empty = [name for name, count in zip(self.class_names, counts, strict=True) if not count]
        if empty:
            raise InputError(
                f"every class of a stream needs {split} images; there is none of "
                f"{', '.join(empty[:5])}{' and others' if len(empty) > 5 else ''}. Add images, or "
                "leave the class out with stream.order or stream.task_classes."
            )


def _check_distinct(name: str, classes: Sequence[int]) -> None:
    if not classes:
        raise InputError(f"{name} must hold at least one class index; got none.")
    seen: set[int] = set()
    for index in classes:
        if index in seen:
            raise InputError(f"{name} must hold each class once; got {index} twice.")
        seen.add(index)


def _sizes(num_classes: int, wanted: int | None, dataset: DatasetFacts) -> list[int]:
    """Task sizes: equal if a number of tasks is asked for, else as equal as they can be."""
    if wanted is not None:
        return _equal_sizes(num_classes, wanted)
    num_tasks = min(dataset.default_num_tasks, num_classes)
    size, num_larger = divmod(num_classes, num_tasks)
    return [size + 1] * num_larger + [size] * (num_tasks - num_larger)


def _equal_sizes(num_classes: int, num_tasks: int) -> list[int]:
    if num_classes % num_tasks == 0:
        return [num_classes // num_tasks] * num_tasks
    fitting = [count for count in range(1, num_classes + 1) if num_classes % count == 0]
    nearest = min(fitting, key=lambda count: abs(count - num_tasks))
    raise InputError(
        f"stream.num_tasks must divide the {num_classes} classes of the stream; got {num_tasks}. "
        f"The nearest that works is {nearest}; for unequal tasks give stream.task_sizes."
    )
