from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from remnant.errors import InputError
from remnant.images import patches_to_pixels
from remnant.memory import CODECS, Candidate, Codec, Memory, MemoryConfig

SHAPE = (8, 8, 3)
MAX_CLASSES = 6


def usable_codecs() -> list[Codec]:
    """Every codec of the table with its defaults."""
    return [codec(codec.Config.parse({}), SHAPE) for codec in CODECS.values()]


def image_of(label: int, rank: int) -> np.ndarray:
    """Grey that shows the rank through any codec, with noise that makes sizes differ."""
    noise = np.random.default_rng(100 * label + rank).integers(-6, 7, SHAPE)
    return (20 + 25 * rank + noise * (rank % 3)).astype(np.uint8)


def rank_in(codec: Codec, memory: Memory, label: int) -> list[int]:
    """The ranks that the images of a class had when they came."""
    ranks = []
    for exemplar in memory.exemplars(label):
        image, known = codec.decode(exemplar)
        if known is not None:
            image = image[patches_to_pixels(known, SHAPE[:2])]
        ranks.append(round((float(image.mean()) - 20) / 25))
    return ranks


@st.composite
def any_config(draw: st.DrawFn) -> MemoryConfig:
    """Any codec under a budget of one to six typical exemplars per class."""
    codec = draw(st.sampled_from(usable_codecs()))
    typical = codec.encode(Candidate(image_of(0, 2)), torch.Generator())
    size = len(typical.payload) + len(typical.positions) + codec.length_bytes
    per_class = draw(st.booleans())
    amount = int(size * draw(st.floats(1, 6))) * (1 if per_class else MAX_CLASSES)
    return MemoryConfig(
        budget=f"{amount}B/class" if per_class else f"{amount}B",
        codec=codec.config,
        count_overhead=draw(st.booleans()),
    )


class AnySequenceOfChanges(RuleBasedStateMachine):
    """Up to six classes come, shrink and go in any order, under any codec."""

    @initialize(config=any_config())
    def begin(self, config: MemoryConfig) -> None:
        self.memory = Memory(config, SHAPE, seed=0)
        self.ranks: dict[int, list[int]] = {}  # what each class may hold, best first

    def attempt(self, change: Callable[[], object]) -> bool:
        """Whether a change went through; one that is refused must change nothing."""
        before = self.memory.digest()
        try:
            change()
        except InputError:
            was_refused = True
        else:
            was_refused = False
        assert not was_refused or self.memory.digest() == before
        return not was_refused

    @rule(label=st.integers(0, MAX_CLASSES - 1), count=st.integers(1, 9))
    def add(self, label: int, count: int) -> None:
        images = [image_of(label, rank) for rank in range(count)]
        if label not in self.ranks and self.attempt(
            lambda: self.memory.add_class(label, str(label), map(Candidate, images))
        ):
            self.ranks[label] = list(range(count))

    @rule(num_classes=st.integers(1, MAX_CLASSES))
    def announce(self, num_classes: int) -> None:
        self.attempt(lambda: self.memory.expect(max(num_classes, len(self.ranks))))

    @rule(label=st.integers(0, MAX_CLASSES - 1), rank=st.integers(0, 8))
    def thin(self, label: int, rank: int) -> None:
        if label in self.ranks and rank < len(self.memory.exemplars(label)):
            self.memory.remove_exemplar(label, rank)
            del self.ranks[label][rank]

    @rule(label=st.integers(0, MAX_CLASSES - 1))
    def forget(self, label: int) -> None:
        if self.ranks.pop(label, None) is not None:
            self.memory.remove_class(label)

    @invariant()
    def the_budget_holds(self) -> None:
        memory, ledger = self.memory, self.memory.ledger()
        strict = ledger["payload"] + ledger["positions"] + ledger["lengths"]
        counted = strict if memory.config.count_overhead else ledger["payload"]
        assert memory.nbytes == counted <= memory.budget_bytes
        if memory.budget.per_class:
            for label in memory.labels:
                payloads = sum(len(one.payload) for one in memory.exemplars(label))
                assert payloads <= memory.budget.bytes

    @invariant()
    def each_class_keeps_a_prefix(self) -> None:
        assert self.memory.labels == sorted(self.ranks)
        for label, ranks in self.ranks.items():
            kept = rank_in(self.memory.codec, self.memory, label)
            assert kept == ranks[: len(kept)]

    @invariant()
    def the_ledger_adds_up_to_the_arrays(self) -> None:
        arrays, _ = self.memory.state_arrays()
        ledger = self.memory.ledger()
        for name in ("payload", "positions", "lengths"):
            assert ledger[name] == (arrays[name].nbytes if name in arrays else 0)
        assert ledger["fixed"]["tables"] == (arrays["tables"].nbytes if "tables" in arrays else 0)
        listed = sum(ledger[name] for name in ("payload", "positions", "lengths"))
        class_table = 16 * len(self.memory.labels)
        total = sum(array.nbytes for array in arrays.values())
        assert total == listed + ledger["fixed"]["tables"] + class_table

    @invariant()
    def its_arrays_make_it_again(self) -> None:
        assert is_equal(Memory.from_arrays(*self.memory.state_arrays()), self.memory)

    def teardown(self) -> None:
        if not hasattr(self, "memory"):
            return
        with TemporaryDirectory() as folder:
            digest = self.memory.save(Path(folder) / "memory")
            again = Memory.load(Path(folder) / "memory")
        assert digest == self.memory.digest()
        assert is_equal(again, self.memory)


def is_equal(one: Memory, other: Memory) -> bool:
    return (
        one.digest() == other.digest()
        and one.codec.config == other.codec.config
        and one.config == other.config
        and one.num_seen_classes == other.num_seen_classes
        and [one.exemplars(label) for label in one.labels]
        == [other.exemplars(label) for label in other.labels]
    )


TestAnySequenceOfChanges = AnySequenceOfChanges.TestCase
TestAnySequenceOfChanges.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)


@pytest.mark.slow
class TestManySequencesOfChanges(AnySequenceOfChanges.TestCase):
    settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
