"""What a budget will hold, before there is data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from remnant.images import Shape
from remnant.memory.budget import MemoryConfig
from remnant.memory.memory import Memory


def plan_memory(
    config: MemoryConfig,
    image_shape: Shape,
    num_classes_after_each_task: Sequence[int],
    available_per_class: int | None = None,
    side_bytes: Callable[[int], int] = lambda _: 0,
) -> list[dict[str, int | None]]:
    """What the memory will hold after each task, without data, when all classes are equal.

    Args:
        config: Where sizes vary with its codec, numbers of exemplars and their bytes are None.
        image_shape: Height, width and channels.
        num_classes_after_each_task: That share the memory then.
        available_per_class: Images of a class, where they limit what is stored.
        side_bytes: Of side data beside each exemplar, by the classes seen; that of the newest is
            taken for all.

    Raises:
        InputError: After some task the budget cannot hold one exemplar per class.
    """
    memory = Memory(config, image_shape, seed=0, num_classes=max(num_classes_after_each_task))
    rows: list[dict[str, int | None]] = []
    for num_classes in num_classes_after_each_task:
        memory.expect(num_classes, side_bytes(num_classes))
        size = memory.counted_exemplar_bytes
        count = memory.capacity(num_classes)
        if count is not None and available_per_class is not None:
            count = min(count, available_per_class)
        per_class = None if count is None or size is None else count * size
        rows.append(
            {
                "num_classes": num_classes,
                "exemplars_per_class": count,
                "bytes_per_exemplar": size,
                "bytes_per_class": per_class,
                "total_bytes": None if per_class is None else per_class * num_classes,
                "budget_bytes": memory.budget_bytes,
            }
        )
    return rows
