"""Adding a class costs what it brings, however many classes are stored: many cost linear time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from remnant.memory import Candidate, Memory, MemoryConfig
from remnant.memory.packing import Packing

SHAPE = (4, 4, 3)


class Watched(dict[int, Any]):
    """Notes every class that is looked at."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__()
        self._note = note

    def __getitem__(self, label: int) -> Any:
        self._note("class")
        return super().__getitem__(label)

    def __iter__(self) -> Iterator[int]:
        return self._noting(super().__iter__())

    def values(self) -> Any:
        return [*self._noting(super().values())]

    def items(self) -> Any:
        return [*self._noting(super().items())]

    def _noting(self, found: Iterable[Any]) -> Iterator[Any]:
        for one in found:
            self._note("class")
            yield one


# Per class; and in all, of which the classes below take a part.
@pytest.mark.parametrize("budget", ["2images/class", "1000images"])
@pytest.mark.parametrize("codec", ["raw", "jpeg"])  # exemplars of one size, and of many
def test_a_class_added_to_many_looks_at_no_more_classes_than_one_added_to_few(
    budget: str, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits: list[str] = []
    counted = Packing.counted

    def note_counted(*arguments: Any) -> int:
        visits.append("counted")
        return counted(*arguments)

    monkeypatch.setattr(Packing, "counted", note_counted)
    memory = Memory(MemoryConfig.parse({"budget": budget, "codec": codec}), SHAPE, seed=0)
    memory._classes = Watched(visits.append)
    visits_of = []
    for label in range(301):
        visits.clear()
        flat = np.full((2, *SHAPE), label % 256, np.uint8)
        memory.add_class(label, str(label), map(Candidate, flat))
        visits_of.append(len(visits))
    assert memory.counts == [2] * 301
    assert visits_of[10] == visits_of[300] > 0
