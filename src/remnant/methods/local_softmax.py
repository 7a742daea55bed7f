"""A softmax over the classes of one task alone: which tasks it can learn."""

from __future__ import annotations

from remnant.errors import InputError
from remnant.images import Task


def require_rivals(task: Task) -> None:
    """Refuse a later task of one class: a softmax over that class alone is always right.

    Raises:
        InputError: The task has one new class.
    """
    if task.index > 0 and task.num_new_classes == 1:
        raise InputError(
            "a softmax over the classes of one task learns nothing from a single class; task "
            f"{task.index + 1} has only one. Set method.softmax_over=seen, or give tasks of two "
            "or more classes."
        )
