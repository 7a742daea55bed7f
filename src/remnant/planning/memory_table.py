"""What a budget will hold, before there is data."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from remnant.errors import InputError
from remnant.memory.budget import MemoryConfig
from remnant.memory.memory import Memory


def plan_memory(
    config: MemoryConfig,
    image_shape: tuple[int, int, int],
    num_classes_after_each_task: Sequence[int],
    available_per_class: int | None = None,
    average_bytes: float | None = None,
) -> list[dict[str, int | None]]:
    """What the memory will hold after each task, without data, when all classes are equal.

    Args:
        config: Its codec is taken as it is set; that quality may give way later is not counted.
        image_shape: Height, width and channels.
        num_classes_after_each_task: That share the memory then.
        available_per_class: Images of a class, where they limit what is stored.
        average_bytes: What one exemplar takes of the budget on average, for a codec whose sizes
            vary; without it such a codec has None in place of numbers.

    Raises:
        InputError: After some task the budget cannot hold one exemplar per class.
    """
    memory = Memory(config, image_shape, seed=0, num_classes=max(num_classes_after_each_task))
    size = memory.counted_exemplar_bytes or average_bytes
    rows: list[dict[str, int | None]] = []
    for num_classes in num_classes_after_each_task:
        memory.fit_to(num_classes)
        count = None if size is None else int(memory.budget.quota(num_classes) // size)
        if count == 0 and config.when_full == "recode":
            count = None  # as many as a weaker codec will make room for
        if count == 0:
            raise InputError(
                f"memory.budget must hold one exemplar ({size:,.0f} bytes on average) of each of "
                f"{num_classes:,} classes; got {config.budget!r}. Raise it or choose a smaller "
                "memory.codec."
            )
        if count is not None and available_per_class is not None:
            count = min(count, available_per_class)
        per_class = None if count is None or size is None else floor(count * size)
        rows.append(
            {
                "num_classes": num_classes,
                "exemplars_per_class": count,
                "bytes_per_exemplar": None if size is None else round(size),
                "bytes_per_class": per_class,
                "total_bytes": None if per_class is None else per_class * num_classes,
                "budget_bytes": memory.budget_bytes,
            }
        )
    return rows
