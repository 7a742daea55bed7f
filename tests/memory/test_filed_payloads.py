"""A memory that is too large to be held keeps its payloads in a scratch file; nobody notices."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from remnant import long_rows
from remnant.long_rows import Filed
from remnant.memory import Candidate, Memory, MemoryConfig

SHAPE = (8, 8, 3)
CODECS = ({"name": "patches", "patch_size": 4}, {"name": "jpeg"}, {"name": "raw"})


@pytest.fixture(params=CODECS, ids=lambda codec: codec["name"])
def config(request: pytest.FixtureRequest) -> MemoryConfig:
    return MemoryConfig.model_validate({"budget": "6000B", "codec": request.param})


def worked(config: MemoryConfig, folder: Path | None = None) -> Memory:
    """A memory after changes of every kind, cuts included."""
    memory, chance = Memory(config, SHAPE, seed=0), np.random.default_rng(0)
    memory.folder = folder
    images = chance.integers(0, 256, (4, 20, *SHAPE), dtype=np.uint8)
    for label in range(3):
        memory.add_class(label, f"class {label}", map(Candidate, images[label]))
    memory.extend_class(1, map(Candidate, images[3]))
    memory.remove_exemplar(0, 1)
    memory.thin_class(2, 2)
    return memory


def contents(memory: Memory) -> list[object]:
    return [one.content for label in memory.labels for one in memory.exemplars(label)]


def test_files_and_images_are_those_of_a_memory_that_is_held(
    config: MemoryConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = worked(config)
    held.save(tmp_path / "held")
    monkeypatch.setattr(long_rows, "HELD_BYTES", 0)
    filed = worked(config)
    filed.save(tmp_path / "filed")
    assert (tmp_path / "filed").read_bytes() == (tmp_path / "held").read_bytes()
    assert (filed.digest(), filed.ledger()) == (held.digest(), held.ledger())
    loaded = Memory.load(tmp_path / "held")
    assert loaded.digest() == held.digest()
    for memory in (filed, loaded):
        assert all(isinstance(one, Filed) for one in contents(memory))
        replay, expected = memory.images(), held.images()
        assert replay is not None
        assert expected is not None
        rows = torch.arange(len(expected))
        assert torch.equal(replay.images.read(rows), expected.images.read(rows))
        assert memory.exemplars(1) == held.exemplars(1)


def test_a_loaded_memory_does_not_depend_on_its_file(
    config: MemoryConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "memory"
    worked(config).save(path)
    monkeypatch.setattr(long_rows, "HELD_BYTES", 0)
    loaded = Memory.load(path)
    path.write_bytes(b"another program writes here")
    assert loaded.digest() == worked(config).digest()


def test_the_file_has_no_name_in_the_folder_of_the_run(
    config: MemoryConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_rows, "HELD_BYTES", 0)
    memory = worked(config, tmp_path)
    assert all(isinstance(one, Filed) for one in contents(memory))
    assert [*tmp_path.iterdir()] == []


def test_a_copy_is_a_memory_of_its_own(
    config: MemoryConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_rows, "HELD_BYTES", 0)
    memory = worked(config)
    other = copy.deepcopy(memory)
    other.thin_class(1, 1)
    assert memory.digest() == worked(config).digest() != other.digest()


@pytest.mark.parametrize("held_bytes", [0, 1 << 20])
def test_memories_that_share_their_classes_change_alone(
    config: MemoryConfig, held_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_rows, "HELD_BYTES", held_bytes)
    memory, other = worked(config), Memory(config, SHAPE, seed=1)
    other.share(memory)
    assert (other.digest(), other.nbytes) == (memory.digest(), memory.nbytes)
    assert [*map(id, contents(other))] == [*map(id, contents(memory))]
    other.add_class(3, "another", [Candidate(np.zeros(SHAPE, np.uint8))])
    other.thin_class(1, 1)
    assert memory.digest() == worked(config).digest() != other.digest()
    assert memory.nbytes == worked(config).nbytes


def test_what_fits_is_held_and_what_comes_then_is_filed(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(MemoryConfig(budget="2images/class"), SHAPE, seed=0)
    monkeypatch.setattr(long_rows, "HELD_BYTES", 3 * memory.budget.bytes // 2)
    for label in range(3):
        memory.add_class(label, str(label), 2 * [Candidate(np.zeros(SHAPE, np.uint8))])
    assert {type(one.content) for one in memory.exemplars(0)} == {bytes}
    assert {type(one.content) for label in (1, 2) for one in memory.exemplars(label)} == {Filed}
