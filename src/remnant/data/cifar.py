"""CIFAR-10 and CIFAR-100 from the official binary releases, never from the pickles.

A record is one label byte (two in CIFAR-100: coarse, then fine) and 3,072 pixel bytes, channel by
channel. Files are verified at every reading: it costs a fifth of a second, and a damaged file would
cost a wrong table.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from remnant.data.archive_members import ArchiveSpec, Member
from remnant.data.spec import (
    Channels,
    DatasetFacts,
    DatasetSpec,
    Source,
    data_root,
    missing,
)
from remnant.errors import InputError
from remnant.images import ArrayImages, ImageSet

_SIZE = 32
_PIXEL_BYTES = 3 * _SIZE * _SIZE


@dataclass(frozen=True)
class CifarFile:
    """One file of records."""

    name: str
    num_images: int
    sha1: str | None = None  # None: unknown, so only size and labels are verified


@dataclass(frozen=True)
class CifarRelease:
    """Where a release keeps what, and how to know that it is whole."""

    name: str
    folder: str  # under the data root
    num_classes: int
    label_bytes: int  # the last of them is the label
    train: tuple[CifarFile, ...]
    test: tuple[CifarFile, ...]
    names_file: str  # optional on disk

    @property
    def record_bytes(self) -> int:
        return self.label_bytes + _PIXEL_BYTES


CIFAR10_RELEASE = CifarRelease(
    name="cifar10",
    folder="cifar-10-batches-bin",
    num_classes=10,
    label_bytes=1,
    train=tuple(CifarFile(f"data_batch_{number}.bin", 10_000) for number in range(1, 6)),
    test=(CifarFile("test_batch.bin", 10_000),),
    names_file="batches.meta.txt",
)
CIFAR100_RELEASE = CifarRelease(
    name="cifar100",
    folder="cifar-100-binary",
    num_classes=100,
    label_bytes=2,
    train=(CifarFile("train.bin", 50_000, "e207cd2e05b73b1393c74c7f5e7bea451d63e08e"),),
    test=(CifarFile("test.bin", 10_000, "8fb6623e830365ff53cf14adec797474f5478006"),),
    names_file="fine_label_names.txt",
)


def _members(release: CifarRelease) -> Iterator[Member]:
    for file in (*release.train, *release.test):
        num_bytes = file.num_images * release.record_bytes
        yield Member(re.escape(file.name), 1, num_bytes, num_bytes)
    yield Member(re.escape(release.names_file), 0, 1 << 16)


def _spec(
    release: CifarRelease,
    title: str,
    *,
    url: str,
    md5: str,
    download_bytes: int,
    mean: Channels,
    std: Channels,
    default_order: str,
    default_num_tasks: int,
) -> DatasetSpec:
    num_train, num_test = (
        sum(file.num_images for file in files) for files in (release.train, release.test)
    )
    return DatasetSpec(
        facts=DatasetFacts(
            name=release.name,
            title=title,
            num_classes=release.num_classes,
            image_size=_SIZE,
            train_per_class=num_train // release.num_classes,
            test_per_class=num_test // release.num_classes,
            mean=mean,
            std=std,
            default_order=default_order,
            default_num_tasks=default_num_tasks,
            source=url,
            download_bytes=download_bytes,
        ),
        open=lambda config, size: open_cifar(release, data_root(config.root)),
        archive=ArchiveSpec(url, md5, download_bytes, release.folder, tuple(_members(release))),
        check=lambda root: check_cifar(release, root),
    )


CIFAR10 = _spec(
    CIFAR10_RELEASE,
    "CIFAR-10",
    url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    md5="c32a1d4ab5d03f1284b67883e8d87530",
    download_bytes=170_052_171,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    default_order="identity",
    default_num_tasks=5,
)
CIFAR100 = _spec(
    CIFAR100_RELEASE,
    "CIFAR-100",
    url="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
    md5="03b5dce01913d631647c71ecec9e9cb8",
    download_bytes=168_513_733,
    mean=(0.5071, 0.4867, 0.4408),
    std=(0.2675, 0.2565, 0.2761),
    default_order="icarl",
    default_num_tasks=10,
)


def open_cifar(release: CifarRelease, root: Path) -> Source:
    """The release under `root`; ids are positions in the official order of a split."""
    return Source(
        class_names=_class_names(release, root),
        train=lambda: _read_split(release, root, release.train),
        test=lambda: _read_split(release, root, release.test),
    )


def check_cifar(release: CifarRelease, root: Path) -> list[str]:
    """One line per file that was verified.

    Raises:
        InputError: A file is missing, truncated or altered.
    """
    lines = []
    for file in (*release.train, *release.test):
        _read_records(release, root, file)
        proof = f"SHA-1 {file.sha1}" if file.sha1 else "size and labels as published"
        lines.append(f"{file.name}: {proof}, {file.num_images:,} images")
    return lines


def _class_names(release: CifarRelease, root: Path) -> tuple[str, ...]:
    path = root / release.folder / release.names_file
    text = path.read_text("utf-8", errors="replace") if path.is_file() else ""
    names = tuple(line.strip() for line in text.splitlines() if line.strip())
    if len(names) == release.num_classes:
        return names
    return tuple(f"class {label}" for label in range(release.num_classes))


def _read_split(release: CifarRelease, root: Path, files: tuple[CifarFile, ...]) -> ImageSet:
    num_images = sum(file.num_images for file in files)
    images = np.empty((num_images, _SIZE, _SIZE, 3), np.uint8)
    labels = np.empty(num_images, np.int64)
    start = 0
    for file in files:
        records = _read_records(release, root, file)
        stop = start + file.num_images
        labels[start:stop] = records[:, release.label_bytes - 1]
        pixels = records[:, release.label_bytes :].reshape(-1, 3, _SIZE, _SIZE)
        images[start:stop] = pixels.transpose(0, 2, 3, 1)  # [N, 32, 32, 3]
        start = stop
    return ImageSet(
        ArrayImages(torch.from_numpy(images)), torch.from_numpy(labels), torch.arange(num_images)
    )


def _read_records(release: CifarRelease, root: Path, file: CifarFile) -> np.ndarray:
    """The verified records of one file, uint8 [N, label bytes + 3072]."""
    path = root / release.folder / file.name
    if not path.is_file():
        raise missing(release.name, path)
    # The size comes first, so that a wrong file of any length is not read into memory.
    expected, found = file.num_images * release.record_bytes, path.stat().st_size
    if found != expected:
        raise _damaged(release, path, f"must have {expected:,} bytes; it has {found:,}")
    content = path.read_bytes()
    sha1 = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    if file.sha1 is not None and sha1 != file.sha1:
        raise _damaged(release, path, f"must have SHA-1 {file.sha1}; it has {sha1}")
    records = np.frombuffer(content, np.uint8).reshape(file.num_images, release.record_bytes)
    largest = int(records[:, release.label_bytes - 1].max())
    if largest >= release.num_classes:
        held = f"must have labels below {release.num_classes}; it has {largest}"
        raise _damaged(release, path, held)
    return records


def _damaged(release: CifarRelease, path: Path, what: str) -> InputError:
    return InputError(
        f"{path} {what}. The file is truncated or altered: delete it and run "
        f"`remnant data get {release.name}`."
    )
