from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
import torch

from remnant.images import ArrayImages
from remnant.training import scratch
from remnant.training.scratch import ScratchFile, ScratchImages, hold_images

SHAPE = (4, 6, 3)


def some_batches() -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(0)
    return [torch.randint(256, (n, *SHAPE), generator=rng, dtype=torch.uint8) for n in (3, 1, 4)]


def test_few_images_are_held_in_memory(tmp_path: Path) -> None:
    held = hold_images(some_batches(), 8, SHAPE, tmp_path)
    assert isinstance(held, ArrayImages)
    assert torch.equal(held.array, torch.cat(some_batches()))


def test_many_images_are_read_from_a_file_as_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "HELD_BYTES", 0)
    images, expected = torch.cat(some_batches()), ArrayImages(torch.cat(some_batches()))
    held = hold_images(iter(some_batches()), 8, SHAPE, tmp_path)
    assert isinstance(held, ScratchImages)
    assert (len(held), held.shape) == (8, SHAPE)
    rows, draws = torch.tensor([7, 0, 3, 3]), torch.rand(4, 4)
    assert torch.equal(held.read(rows), images[rows])
    assert torch.equal(held.read(rows, draws), expected.read(rows, draws))
    assert torch.equal(held.select(rows).read(torch.tensor([2, 0])), images[[3, 7]])
    assert len(held.read(torch.tensor([], dtype=torch.int64))) == 0


def test_the_file_has_no_name_and_goes_with_its_last_reader(tmp_path: Path) -> None:
    file = ScratchFile(tmp_path)
    file.write(memoryview(b"abc"), 2)
    assert list(tmp_path.iterdir()) == []
    room = bytearray(3)
    file.read_into(memoryview(room), 2)
    assert room == b"abc"
    handle = file.handle
    del file
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle)


def test_a_folder_that_is_not_there_is_done_without(tmp_path: Path) -> None:
    ScratchFile(tmp_path / "gone").write(memoryview(b"x"), 0)
    ScratchFile(None).write(memoryview(b"x"), 0)
    assert not (tmp_path / "gone").exists()
