"""A softmax over the classes of one task alone: which tasks it can learn."""

from __future__ import annotations

from remnant.errors import InputError


def require_rivals(index: int, num_new_classes: int) -> None:
    """Refuse a later task of one class: a softmax over that class alone is always right.

    Raises:
        InputError: The task has one new class.
    """
    if index > 0 and num_new_classes == 1:
        raise InputError(
            "a softmax over the classes of one task learns nothing from a single class; task "
            f"{index + 1} has only one. Set method.softmax_over=seen, or give tasks of two or more "
            "classes."
        )
