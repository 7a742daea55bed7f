from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from remnant.errors import InputError
from remnant.memory import Candidate, Keeps, KeptTensors, Memory, MemoryConfig
from tests.support.worlds import filled_images


def make_memory(*labels: int) -> Memory:
    memory = Memory(MemoryConfig(budget="2images/class"), (16, 16, 3), seed=0)
    for label in labels:
        images = filled_images(torch.full((2,), label)).numpy()
        memory.add_class(label, f"grey {label}", map(Candidate, images))
    return memory


def make_tensors(seed: int = 0) -> KeptTensors:
    rng = torch.Generator().manual_seed(seed)
    return KeptTensors(
        "scores", {"first": torch.rand(2, 3, generator=rng), "count": torch.ones(())}
    )


def test_tensors_are_counted_by_name() -> None:
    kept = make_tensors()
    assert kept.ledger() == {"first": 24, "count": 4}
    assert kept.nbytes == 28


def test_a_module_is_counted_with_its_buffers() -> None:
    kept = KeptTensors.of("generator", nn.BatchNorm1d(5))
    assert kept.nbytes == 4 * 5 * 4 + 8  # and an integer of eight bytes


@pytest.mark.parametrize("make", [make_tensors, lambda: make_memory(0, 1)])
def test_what_is_kept_is_the_same_after_a_round_trip(make) -> None:
    kept: Keeps = make()
    other: Keeps = make_tensors(1) if kept.name == "scores" else make_memory(0)
    assert other.digest() != kept.digest()
    arrays, metadata = kept.state_arrays()
    other.load_arrays({name: array.copy() for name, array in arrays.items()}, metadata, "here")
    assert other.digest() == kept.digest()
    assert other.ledger() == kept.ledger()
    assert other.nbytes == kept.nbytes > 0


def test_a_memory_that_cannot_be_loaded_stays_as_it_was() -> None:
    memory = make_memory(0, 1)
    before = memory.digest()
    with pytest.raises(InputError, match="here does not hold a usable memory"):
        memory.load_arrays({"labels": np.zeros(1)}, {}, "here")
    assert memory.digest() == before
