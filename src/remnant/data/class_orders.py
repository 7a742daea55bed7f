"""Class orders by name: position k of an order is the original index of the k-th class to learn."""

from __future__ import annotations

import re

import numpy as np
import torch

from remnant.errors import InputError, nearest
from remnant.randomness import generator


def _parse(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split())


# The published orders of 100 classes. "icarl" also follows from seed 1993, but only after the 100
# shuffles of 500 images that iCaRL's program does first; it is the first of DyTox's three orders.
# "der-0" is the first trial of DER (expandable representation); its other trials are seed-1993,
# icarl, dytox-2 and dytox-3.
PUBLISHED_ORDERS: dict[str, tuple[int, ...]] = {
    "icarl": _parse("""
        87 0 52 58 44 91 68 97 51 15 94 92 10 72 49 78 61 14 8 86 84 96 18 24 32 45 88 11 4 67
        69 66 77 47 79 93 29 50 57 83 17 81 41 12 37 59 25 20 80 73 1 28 6 46 62 82 53 9 31 75
        38 63 33 74 27 22 36 3 16 21 60 19 70 90 89 43 5 42 65 76 40 30 23 85 2 95 56 48 71 64
        98 13 99 7 34 55 54 26 35 39
    """),
    "dytox-2": _parse("""
        58 30 93 69 21 77 3 78 12 71 65 40 16 49 89 46 24 66 19 41 5 29 15 73 11 70 90 63 67 25
        59 72 80 94 54 33 18 96 2 10 43 9 57 81 76 50 32 6 37 7 68 91 88 95 85 4 60 36 22 27
        39 42 34 51 55 28 53 48 38 17 83 86 56 35 45 79 99 84 97 82 98 26 47 44 62 13 31 0 75 14
        52 74 8 20 1 92 87 23 64 61
    """),
    "dytox-3": _parse("""
        71 54 45 32 4 8 48 66 1 91 28 82 29 22 80 27 86 23 37 47 55 9 14 68 25 96 36 90 58 21
        57 81 12 26 16 89 79 49 31 38 46 20 92 88 40 39 98 94 19 95 72 24 64 18 60 50 63 61 83 76
        69 35 0 52 7 65 42 73 74 30 41 3 6 53 13 56 70 77 34 97 75 2 17 93 33 84 99 51 62 87
        5 15 10 78 67 44 59 85 43 11
    """),
    "der-0": _parse("""
        62 54 84 20 94 22 40 29 78 27 26 79 17 76 68 88 3 19 31 21 33 60 24 14 6 10 16 82 70 92
        25 5 28 9 61 36 50 90 8 48 47 56 11 98 35 93 44 64 75 66 15 38 97 42 43 12 37 55 72 95
        18 7 23 71 49 53 57 86 39 87 34 63 81 89 69 46 2 1 73 32 67 91 0 51 83 13 58 80 74 65
        4 30 45 77 99 85 41 96 59 52
    """),
}

ORDER_NAMES = ("default", "identity", "seed-1993", *PUBLISHED_ORDERS)
_SEEDED = re.compile(r"seed:(\d+)")


def check_order_name(name: str) -> None:
    """Raise InputError, with the nearest match, unless `name` is an order's name or `seed:N`."""
    if name in ORDER_NAMES or _SEEDED.fullmatch(name):
        return
    hint = nearest(name, [*ORDER_NAMES, "seed:0"])
    raise InputError(
        f"stream.order must be one of {', '.join(ORDER_NAMES)}, seed:N, or a list of class "
        f"indices; got {name!r}.{hint}"
    )


def named_order(name: str, num_classes: int) -> list[int]:
    """All classes of a data set in the order of that name; "default" must be resolved before.

    Raises:
        InputError: There is no such order, or not for so many classes.
    """
    check_order_name(name)
    assert name != "default", "only a data set knows its default order"
    if name == "identity":
        return list(range(num_classes))
    if name == "seed-1993":
        # The legacy generator: its numbers are frozen, and the published orders were drawn by it.
        return np.random.RandomState(1993).permutation(num_classes).tolist()
    if seeded := _SEEDED.fullmatch(name):
        draws = generator(int(seeded[1]), "class-order")
        return torch.randperm(num_classes, generator=draws).tolist()
    order = PUBLISHED_ORDERS[name]
    if num_classes != len(order):
        raise InputError(
            f"stream.order={name!r} is an order of {len(order)} classes; the data set has "
            f"{num_classes}. Use seed-1993, seed:N, identity or a list of class indices."
        )
    return list(order)
