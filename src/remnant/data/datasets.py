"""From a config to images: the one place that knows which loader belongs to which data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from remnant.data.cifar import CIFAR10, CIFAR100, check_cifar, open_cifar
from remnant.data.data_config import DataConfig, data_root, known_name
from remnant.data.digits import open_digits
from remnant.data.facts import DATASETS, Channels, DatasetFacts
from remnant.data.file_images import settle
from remnant.data.folder import open_folder
from remnant.data.imagenet import open_imagenet, open_tiny_imagenet
from remnant.data.source import Progress, Source
from remnant.data.splits import first_per_class, held_out_count, hold_out
from remnant.errors import InputError
from remnant.images import ImageSet

_CHECK_SIZE = 8  # px; the smallest decode that still reads a file to its end
_CHECK_WORKERS = 4
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


def facts(config: DataConfig) -> DatasetFacts:
    """What is known before loading, as `config` changes it; reads no image, lists a "folder"."""
    known = DATASETS[config.dataset]
    if config.dataset == "folder":
        known = _folder_facts(config, known)
    if config.image_size is not None:
        known = replace(known, image_size=config.image_size)
    if config.images_per_class is not None:
        known = replace(known, train_per_class=config.images_per_class)
    if config.holdout_ratio > 0:
        held = held_out_count(known.train_per_class, config.holdout_ratio)
        known = replace(known, train_per_class=known.train_per_class - held, test_per_class=held)
    return known


def load_dataset(config: DataConfig) -> Dataset:
    """The data set, small images in memory.

    Raises:
        InputError: Files are missing or damaged, or a class has too few images.
    """
    known = DATASETS[config.dataset]
    size = config.image_size or known.image_size
    source = _open(config, size)
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
        mean=known.mean,
        std=known.std,
    )


def check_dataset(
    name: str, root: str | None = None, *, progress: Progress | None = None
) -> list[str]:
    """One line for each thing verified; every image is decoded. For "folder", `root` is the folder.

    Raises:
        InputError: The data set is missing, incomplete or damaged; the message names the file.
    """
    if known_name(name) in ("cifar10", "cifar100"):
        return check_cifar(CIFAR10 if name == "cifar10" else CIFAR100, data_root(root))
    if name == "folder" and root is None:
        raise InputError("checking a folder needs its path. Give it as the data root.")
    path = root if name == "folder" else None
    config = DataConfig(dataset=name, root=root, path=path, workers=_CHECK_WORKERS)
    source = _open(config, DATASETS[name].image_size if name == "digits" else _CHECK_SIZE)
    splits = {"train": source.train(), "test": source.test()}
    if name == "tiny-imagenet":
        _check_counts(splits, DATASETS[name])
    total, done, lines = sum(len(images) for images in splits.values()), 0, []
    for split, images in splits.items():
        for positions in torch.arange(len(images)).split(_CHUNK):
            images.images.read(positions)
            done += len(positions)
            if progress is not None:
                progress(done, total)
        num_classes = len(images.labels.unique())
        lines.append(f"{split}: {len(images):,} images of {num_classes:,} classes, all decoded")
    return lines


def _open(config: DataConfig, size: int) -> Source:
    root, workers = data_root(config.root), config.workers
    openers: dict[str, Callable[[], Source]] = {
        "digits": open_digits,
        "cifar10": lambda: open_cifar(CIFAR10, root),
        "cifar100": lambda: open_cifar(CIFAR100, root),
        "tiny-imagenet": lambda: open_tiny_imagenet(root, size, workers),
        "imagenet-subset": lambda: open_imagenet("imagenet-subset", 100, root, size, workers),
        "imagenet-full": lambda: open_imagenet("imagenet-full", 1000, root, size, workers),
        "folder": lambda: open_folder(Path(config.path or "").expanduser(), size, workers),
    }
    return openers[config.dataset]()


def _folder_facts(config: DataConfig, known: DatasetFacts) -> DatasetFacts:
    source = _open(config, known.image_size)
    num_classes = len(source.class_names)
    test_images = 0 if config.holdout_ratio > 0 else len(source.test())
    return replace(
        known,
        num_classes=num_classes,
        train_per_class=round(len(source.train()) / num_classes),
        test_per_class=round(test_images / num_classes),
        # Chosen: the most equal tasks up to ten.
        default_num_tasks=max(n for n in range(1, 11) if num_classes % n == 0),
    )


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
