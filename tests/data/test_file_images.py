"""Claims about images that stay in their files."""

from __future__ import annotations

import io
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from remnant.data import file_images
from remnant.data.file_images import FileImages, PathTable, ResizedImages, settle
from remnant.errors import InputError
from remnant.images import ArrayImages, resized_crop
from tests.support.picture_files import flat, textured


def grey_files(folder: Path, count: int, *, size: int = 96, workers: int = 2) -> FileImages:
    """`count` files; image k has grey level k."""
    names = [f"{index}.png" for index in range(count)]
    for index, name in enumerate(names):
        flat(index).save(folder / name)
    return FileImages(PathTable.build(folder, names), torch.arange(count), size, workers)


@pytest.mark.parametrize("workers", [1, 3])
def test_images_come_in_the_order_asked_for(workers: int, tmp_path: Path) -> None:
    images = grey_files(tmp_path, 7, workers=workers)
    read = images.read(torch.tensor([5, 0, 5, 2]))
    assert read.shape == (4, 96, 96, 3)
    assert read[:, 0, 0, 0].tolist() == [5, 0, 5, 2]


def test_selection_of_a_selection_keeps_its_meaning(tmp_path: Path) -> None:
    images = grey_files(tmp_path, 7).select(torch.tensor([6, 3, 1])).select(torch.tensor([2, 0]))
    assert len(images) == 2
    assert images.read(torch.tensor([0, 1]))[:, 0, 0, 0].tolist() == [1, 6]


def test_nothing_asked_for_gives_no_images(tmp_path: Path) -> None:
    nothing = torch.tensor([], dtype=torch.int64)
    assert grey_files(tmp_path, 1).read(nothing).shape == (0, 96, 96, 3)


def test_workers_do_not_change_a_pixel(tmp_path: Path) -> None:
    for index in range(6):
        textured(200 + index, 150).save(tmp_path / f"{index}.jpg")
    paths = PathTable.build(tmp_path, [f"{index}.jpg" for index in range(6)])
    draws = torch.rand(6, 4, generator=torch.Generator().manual_seed(0))
    one, four = (FileImages(paths, torch.arange(6), 80, workers) for workers in (1, 4))
    assert torch.equal(one.read(torch.arange(6), draws), four.read(torch.arange(6), draws))


@pytest.mark.parametrize("workers", [1, 4])
def test_file_that_does_not_decode_is_named(workers: int, tmp_path: Path) -> None:
    images = grey_files(tmp_path, 9, workers=workers)
    (tmp_path / "4.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"4\.png"):
        images.read(torch.arange(9))


def test_names_with_unusual_bytes_survive() -> None:
    names = ["a.png", "späte größe/é.png", "\udcff.png", "b" * 300 + ".png"]
    table = PathTable.build(Path("root"), names)
    assert [table[index] for index in range(4)] == [Path("root") / name for name in names]


def test_a_path_costs_little_more_than_its_name() -> None:
    names = [f"n01440764/n01440764_{index:05}.JPEG" for index in range(50_000)]
    tracemalloc.start()
    table = PathTable.build(Path("imagenet/train"), names)
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(table) == 50_000
    assert held_bytes / 50_000 < len(names[0]) + 16


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_memory_stays_flat_while_many_images_are_read(tmp_path: Path) -> None:
    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    stream = io.BytesIO()
    textured(300, 300).save(stream, "JPEG")
    names = [f"{index}.jpg" for index in range(400)]
    for name in names:
        (tmp_path / name).write_bytes(stream.getvalue())
    images = FileImages(PathTable.build(tmp_path, names), torch.arange(400), 160, 2)
    for _ in range(3):  # allocators warm up
        images.read(torch.arange(40))
    before = resident_bytes()
    for positions in torch.arange(400).repeat(2).split(40):
        images.read(positions)
    # A cache would now hold 360 more images: 27 MB as given out, 97 MB as decoded.
    assert resident_bytes() - before < 8_000_000


def test_small_images_are_held_and_large_ones_are_not(tmp_path: Path) -> None:
    small = settle(grey_files(tmp_path, 5, size=32), 32)
    assert isinstance(small, ArrayImages)
    assert small.array[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4]
    assert isinstance(settle(grey_files(tmp_path, 5, size=65), 65), FileImages)


def test_small_images_that_are_too_many_stay_in_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_images, "MAX_IN_MEMORY_BYTES", 5 * 32 * 32 * 3 - 1)
    assert isinstance(settle(grey_files(tmp_path, 5, size=32), 32), FileImages)


def test_held_images_are_enlarged_on_demand_and_resized_at_once() -> None:
    array = torch.from_numpy(np.stack([np.asarray(textured(32, 32))] * 2))
    held = settle(ArrayImages(array), 48)
    assert isinstance(held, ArrayImages)
    assert held.shape == (48, 48, 3)
    lazy = settle(ArrayImages(array), 96)
    assert isinstance(lazy, ResizedImages)
    assert lazy.is_lazy
    expected = np.asarray(textured(32, 32).resize((96, 96), 2))
    assert np.array_equal(lazy.select(torch.tensor([1])).read(torch.tensor([0]))[0], expected)


def test_crops_of_enlarged_images_are_cut_before_they_are_enlarged() -> None:
    array = torch.from_numpy(np.array(textured(32, 32))[None])
    draws = torch.tensor([[0.2, 0.5, 0.9, 0.1]])
    crop = ResizedImages(ArrayImages(array), 96).read(torch.tensor([0]), draws)[0]
    assert np.array_equal(crop, resized_crop(array[0].numpy(), draws[0].tolist(), (96, 96)))
