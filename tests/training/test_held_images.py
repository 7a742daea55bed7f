from __future__ import annotations

from pathlib import Path

import pytest
import torch

from remnant import long_rows
from remnant.images import ArrayImages
from remnant.training.held_images import ScratchImages, hold_images

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
    monkeypatch.setattr(long_rows, "HELD_BYTES", 0)
    images, expected = torch.cat(some_batches()), ArrayImages(torch.cat(some_batches()))
    held = hold_images(iter(some_batches()), 8, SHAPE, tmp_path)
    assert isinstance(held, ScratchImages)
    assert (len(held), held.shape) == (8, SHAPE)
    chosen, draws = torch.tensor([7, 0, 3, 3]), torch.rand(4, 4)
    assert torch.equal(held.read(chosen), images[chosen])
    assert torch.equal(held.read(chosen, draws), expected.read(chosen, draws))
    assert torch.equal(held.select(chosen).read(torch.tensor([2, 0])), images[[3, 7]])
    assert len(held.read(torch.tensor([], dtype=torch.int64))) == 0
