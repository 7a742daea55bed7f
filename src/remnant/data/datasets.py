"""A data set by its config: described without its images, loaded, or checked."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from remnant.cores import usable_cores
from remnant.data.file_images import find_unreadable, refuse_unreadable, settle
from remnant.data.spec import (
    DATASETS,
    Channels,
    DataConfig,
    DatasetFacts,
    ProgressCallback,
    Source,
    data_root,
)
from remnant.data.splits import first_per_class, held_out_count, hold_out
from remnant.errors import InputError
from remnant.images import ImageSet

_CHECK_SIZE = 8  # px; the smallest decode that still reads a file to its end
_CHECK_WORKERS = min(256, max(4, usable_cores()))  # reading waits for the disk as well
_CHUNK = 256


@dataclass(frozen=True)
class Dataset:
    """What a run gets: labels are class indices as the data set numbers them."""

    name: str
    train: ImageSet
    test: ImageSet  # training images set aside, where data.holdout_ratio is not 0
    class_names: tuple[str, ...]
    mean: Channels
    std: Channels


def describe_dataset(config: DataConfig) -> DatasetFacts:
    """What is known before loading, as `config` changes it.

    Reads no image. Where only the files tell how many classes there are, they are listed.
    """
    spec = DATASETS[config.dataset]
    known = spec.facts
    if known.num_classes == 0:
        known = _count(known, spec.open(config, known.image_size), config)
    if config.image_size is not None:
        known = replace(known, image_size=config.image_size)
    if config.images_per_class is not None:
        known = replace(known, train_per_class=config.images_per_class)
    if config.holdout_ratio > 0:
        held = held_out_count(known.train_per_class, config.holdout_ratio)
        known = replace(known, train_per_class=known.train_per_class - held, test_per_class=held)
    return known


def _count(known: DatasetFacts, source: Source, config: DataConfig) -> DatasetFacts:
    num_classes = len(source.class_names)
    test_images = 0 if config.holdout_ratio > 0 else len(source.test())
    return replace(
        known,
        num_classes=num_classes,
        train_per_class=round(len(source.train()) / num_classes),
        test_per_class=round(test_images / num_classes),
        # Chosen: tasks of two classes or more, since one class teaches nothing to tell apart.
        default_num_tasks=min(5, max(1, num_classes // 2)),
    )


def load_dataset(config: DataConfig) -> Dataset:
    """The data set, small images in memory.

    Raises:
        InputError: Files are missing or damaged, or a class has too few images.
    """
    spec = DATASETS[config.dataset]
    size = config.image_size or spec.facts.image_size
    source = spec.open(config, size)
    train = source.train()
    if config.images_per_class is not None:
        train = first_per_class(train, config.images_per_class, source.class_names)
    if config.holdout_ratio > 0:
        train, test = hold_out(train, config.holdout_ratio, source.class_names)
    else:
        test = source.test()
    return Dataset(
        name=config.dataset,
        train=replace(train, images=settle(train.images, size)),
        test=replace(test, images=settle(test.images, size)),
        class_names=source.class_names,
        mean=spec.facts.mean,
        std=spec.facts.std,
    )


def check_dataset(
    name: str, root: str | None = None, *, progress: ProgressCallback | None = None
) -> list[str]:
    """Verify the files of a data set and return a line for each thing verified.

    Args:
        root: The data root; for a data set that needs data.path, that path.

    Raises:
        InputError: The data set is missing, incomplete or damaged; the message names the files.
    """
    spec = DATASETS.find(name, "the data set")
    if spec.check is not None:
        return spec.check(data_root(root))
    if spec.needs_path and root is None:
        raise InputError(f"checking {name} needs its path. Give it as the data root.")
    path = root if spec.needs_path else None
    config = DataConfig(dataset=name, root=root, path=path, workers=_CHECK_WORKERS)
    source = spec.open(config, _CHECK_SIZE)
    splits = {"train": source.train(), "test": source.test()}
    if spec.has_exact_counts:
        _check_counts(splits, spec.facts)
    total, done = sum(len(images) for images in splits.values()), 0
    lines: list[str] = []
    problems: list[str] = []
    for split, images in splits.items():
        for positions in torch.arange(len(images)).split(_CHUNK):
            try:
                images.images.read(positions)
            except InputError as error:  # of a disk, it may not come again
                problems += find_unreadable(images.images, positions) or [str(error)]
            done += len(positions)
            if progress is not None:
                progress(done, total)
        num_classes = len(images.labels.unique())
        lines.append(f"{split}: {len(images):,} images of {num_classes:,} classes, all decoded")
    refuse_unreadable(problems)
    return lines


def _check_counts(splits: dict[str, ImageSet], known: DatasetFacts) -> None:
    wanted = {"train": known.train_per_class, "test": known.test_per_class}
    for split, images in splits.items():
        counts = torch.bincount(images.labels, minlength=known.num_classes)
        if len(counts) != known.num_classes or bool((counts != wanted[split]).any()):
            raise InputError(
                f"{known.name} must have {known.num_classes} classes of {wanted[split]} {split} "
                f"images; it has {len(images):,} images of {len(images.labels.unique())} classes. "
                f"Run `remnant data get {known.name}`."
            )
