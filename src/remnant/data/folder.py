"""Folders of class folders: the user's own images, and what ImageNet's layouts share with them.

Files count as images by the ending of their name; hidden files, sub-folders and files with other
endings are skipped. Classes and files are taken in the order of their names.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from remnant.data.decode import ENDINGS
from remnant.data.file_images import FileImages, PathTable
from remnant.data.spec import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    DatasetFacts,
    DatasetSpec,
    Source,
)
from remnant.errors import InputError
from remnant.images import ImageSet
from remnant.randomness import generator

_TEST_RATIO = 0.2  # of a class, where the folder has no test images of its own

FOLDER = DatasetSpec(
    facts=DatasetFacts(
        name="folder",
        title="Folder of images",
        num_classes=0,
        image_size=224,
        train_per_class=0,
        test_per_class=0,
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        default_num_tasks=1,
        source="your own images",
    ),
    open=lambda config, size: open_folder(
        Path(config.path or "").expanduser(), size, config.workers
    ),
    how_to_get='"folder" is your own images, so there is nothing to get. Set data.path.',
    needs_path=True,
)


def open_folder(path: Path, size: int, workers: int) -> Source:
    """`train/<class>/*` with `test/<class>/*`, or `<class>/*` split per class by its name."""
    if not path.is_dir():
        raise InputError(
            f"data.path must be a folder of images; {path} is not a folder. Check the path, "
            "or give another with --data-root."
        )
    if has_splits(path):
        return _open_splits(path, size, workers)
    names = subfolders(path)
    if not names:
        raise InputError(
            f"{path} must hold one folder per class, or train and test folders that do; it holds "
            "no folder. Move the images of each class into a folder of its own."
        )
    whole = image_set(path, names, size, workers)
    is_test = _choose_test(whole, names)
    return Source(
        class_names=names,
        train=lambda: whole.select(torch.nonzero(~is_test).flatten()),
        test=lambda: whole.select(torch.nonzero(is_test).flatten()),
    )


def _open_splits(path: Path, size: int, workers: int) -> Source:
    names = subfolders(path / "train")
    return Source(
        class_names=names,
        train=lambda: image_set(path / "train", names, size, workers),
        test=lambda: evaluation_set(path / "test", names, size, workers),
    )


def _choose_test(images: ImageSet, names: Sequence[str]) -> torch.Tensor:
    """bool [N]; drawn from the class's name, so that a new class moves no image of another."""
    is_test = torch.zeros(len(images), dtype=torch.bool)
    for label, name in enumerate(names):
        positions = torch.nonzero(images.labels == label).flatten()
        if len(positions) < 2:
            raise InputError(
                f'class "{name}" must have at least 2 images, one to train and one to test; it has '
                f"{len(positions)}. Add images, or make train and test folders."
            )
        count = max(1, int(len(positions) * _TEST_RATIO))
        order = torch.randperm(len(positions), generator=generator(0, "folder-test", name))
        is_test[positions[order[:count]]] = True
    return is_test


def has_splits(folder: Path) -> bool:
    """Whether its classes are below train, and below test, instead of in the folder itself."""
    train = folder / "train"
    return train.is_dir() and bool(subfolders(train))


def subfolders(folder: Path) -> tuple[str, ...]:
    """Names of the visible folders in `folder`, sorted."""
    with os.scandir(folder) as entries:
        return tuple(
            sorted(
                entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")
            )
        )


def evaluation_set(folder: Path, names: Sequence[str], size: int, workers: int) -> ImageSet:
    """The test images of the training classes `names`, which must all be there and no others."""
    found = subfolders(folder) if folder.is_dir() else ()
    for name in names:
        if name not in found:
            raise InputError(
                f'{folder / name} must hold the test images of class "{name}"; it does not exist. '
                "Add it, or set data.holdout_ratio to evaluate on training images set aside."
            )
    unknown = sorted(set(found) - set(names))
    if unknown:
        raise InputError(
            f'{folder / unknown[0]} holds test images of "{unknown[0]}", which has no training '
            "images. Remove it or add training images."
        )
    return image_set(folder, names, size, workers)


def image_set(
    folder: Path, names: Sequence[str], size: int, workers: int, *, inner: str = ""
) -> ImageSet:
    """The images that `list_images` finds, unopened, in its order."""
    return file_set(*list_images(folder, names, inner=inner), size, workers)


def list_images(
    folder: Path, names: Sequence[str], *, inner: str = ""
) -> tuple[PathTable, torch.Tensor]:
    """Paths and labels of the images `folder/<name>/<inner>/*`; a label is a position in `names`.

    Raises:
        InputError: A class has no folder or no image.
    """
    listed: list[str] = []
    counts = []
    for name in names:
        prefix = f"{name}/{inner}/" if inner else f"{name}/"
        files = _image_names(folder / prefix)
        listed.extend(prefix + file for file in files)
        counts.append(len(files))
    labels = torch.from_numpy(np.repeat(np.arange(len(names), dtype=np.int64), counts))
    return PathTable.build(folder, listed), labels


def file_set(paths: PathTable, labels: torch.Tensor, size: int, workers: int) -> ImageSet:
    """Files as an unopened set; ids are positions in `paths`."""
    ids = torch.arange(len(paths))
    return ImageSet(FileImages(paths, ids, size, workers), labels, ids)


def _image_names(folder: Path) -> list[str]:
    names = os.listdir(folder) if folder.is_dir() else []
    images = sorted(
        name for name in names if name.lower().endswith(ENDINGS) and not name.startswith(".")
    )
    if not images:
        raise InputError(
            f"{folder} must hold the images of its class ({', '.join(ENDINGS)}); it holds none. "
            "Add images or remove the folder."
        )
    return images
