"""A memory that is too large to be held keeps its payloads in a scratch file; nobody notices."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from remnant import long_rows
from remnant.long_rows import Filed
from remnant.memory import Candidate, Memory, MemoryConfig, replay

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
        found, expected = memory.images(), held.images()
        assert found is not None
        assert expected is not None
        rows = torch.arange(len(expected))
        assert torch.equal(found.images.read(rows), expected.images.read(rows))
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


# ------------------------------------------------------------------------------- what is presented


def noise(count: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (count, *SHAPE), dtype=np.uint8)


def test_images_presented_from_a_file_are_those_presented_from_memory(
    config: MemoryConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Memory(config, SHAPE, seed=0).present(noise(9))
    monkeypatch.setattr(replay, "MAX_DECODED_BYTES", 0)
    monkeypatch.setattr(long_rows, "HELD_BYTES", 0)
    filed = Memory(config, SHAPE, seed=0).present(noise(9))
    assert held is not None
    assert filed is not None
    assert all(isinstance(one.exemplar.content, Filed) for one in filed.images.items)
    rows = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    assert torch.equal(filed.images.read(rows), held.images.read(rows))
    if held.is_known is not None:
        assert torch.equal(filed.is_known, held.is_known)


def test_a_presented_image_is_filed_before_the_next_is_read(
    config: MemoryConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_rows, "HELD_BYTES", 0)
    append, filed, seen = long_rows.ScratchFile.append, [], []

    def note(scratch: long_rows.ScratchFile, content: bytes) -> Filed:
        filed.append(scratch)
        return append(scratch, content)

    def offered() -> Iterator[np.ndarray]:
        for image in noise(5):
            seen.append(len(filed))
            yield image

    monkeypatch.setattr(long_rows.ScratchFile, "append", note)
    memory = Memory(config, SHAPE, seed=0)
    memory.folder = tmp_path
    memory.present(offered())
    assert seen == [0, 1, 2, 3, 4]
    assert len(set(filed)) == 1
    assert [*tmp_path.iterdir()] == []


def test_presented_images_are_held_as_far_as_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MAX_DECODED_BYTES", 0)
    monkeypatch.setattr(long_rows, "HELD_BYTES", 2 * noise(1).size)
    shown = Memory(MemoryConfig(budget="2images/class"), SHAPE, seed=0).present(noise(4))
    assert shown is not None
    kinds = [type(one.exemplar.content) for one in shown.images.items]
    assert kinds == [bytes, bytes, Filed, Filed]
