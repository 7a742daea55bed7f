"""The layouts of ImageNet (`train/<wnid>/*`, `val/<wnid>/*`) and of Tiny-ImageNet.

Classes are taken in the order of their WordNet ids (wnids). The validation images serve as test
images: the true ones have no public labels.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import torch

from remnant.data.archive_members import ArchiveSpec, Member
from remnant.data.file_images import PathTable
from remnant.data.folder import file_set, image_set, subfolders
from remnant.data.spec import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    DatasetFacts,
    DatasetSpec,
    Source,
    data_root,
    missing,
)
from remnant.errors import InputError
from remnant.images import ImageSet

_WNID = re.compile(r"n\d{8}")
# The first and the hundredth class of ILSVRC 2012: other folders are another subset.
_SUBSET_ENDS = ("n01440764", "n01855672")
_SUBSET_CLASSES = 100

_MIB = 1 << 20
_TINY_ARCHIVE = ArchiveSpec(
    url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    md5="90528d7ca1a48142e341f4ef8d21d0de",
    download_bytes=248_100_043,
    folder="tiny-imagenet-200",
    members=(
        Member(r"train/(n\d{8})/images/\1_\d+\.JPEG", 100_000, _MIB),
        Member(r"val/images/val_\d+\.JPEG", 10_000, _MIB),
        Member(r"val/val_annotations\.txt", 1, 8 * _MIB),
        Member(r"wnids\.txt", 1, _MIB),
        Member(r"words\.txt", 0, 16 * _MIB),
    ),
)
TINY_IMAGENET = DatasetSpec(
    facts=DatasetFacts(
        name="tiny-imagenet",
        title="Tiny-ImageNet",
        num_classes=200,
        image_size=64,
        train_per_class=500,
        test_per_class=50,
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        default_num_tasks=10,
        source=_TINY_ARCHIVE.url,
        download_bytes=_TINY_ARCHIVE.download_bytes,
    ),
    open=lambda config, size: open_tiny_imagenet(data_root(config.root), size, config.workers),
    archive=_TINY_ARCHIVE,
    has_exact_counts=True,
)


def _imagenet_spec(name: str, title: str, *, num_classes: int, train_per_class: int) -> DatasetSpec:
    return DatasetSpec(
        facts=DatasetFacts(
            name=name,
            title=title,
            num_classes=num_classes,
            image_size=224,
            train_per_class=train_per_class,
            test_per_class=50,
            mean=IMAGENET_MEAN,
            std=IMAGENET_STD,
            default_order="seed-1993",
            default_num_tasks=10,
            source="https://image-net.org (needs an account)",
        ),
        open=lambda config, size: open_imagenet(
            name, num_classes, data_root(config.root), size, config.workers
        ),
        how_to_get=(
            f"{name} may not be downloaded without an account. Get ILSVRC 2012 from "
            "https://image-net.org and put its images at {root}/imagenet/train/<wnid>/ and "
            "{root}/imagenet/val/<wnid>/."
        ),
        marker="imagenet/train",
    )


IMAGENET_SUBSET = _imagenet_spec(
    "imagenet-subset", "ImageNet-Subset", num_classes=100, train_per_class=1294
)
IMAGENET_FULL = _imagenet_spec(
    "imagenet-full", "ImageNet-Full", num_classes=1000, train_per_class=1281
)


def open_imagenet(name: str, num_classes: int, root: Path, size: int, workers: int) -> Source:
    """The first `num_classes` classes of ImageNet under `<root>/imagenet`."""
    folder = root / "imagenet"
    if not (folder / "train").is_dir():
        raise missing(name, folder / "train", can_download=False)
    found = _wnids(folder / "train")
    if len(found) < num_classes:
        raise InputError(
            f"{folder / 'train'} must hold {num_classes:,} class folders named by wnid for {name}; "
            f"it holds {len(found):,}. Complete it from the ILSVRC 2012 release."
        )
    wnids = found[:num_classes]
    ends = (wnids[0], wnids[_SUBSET_CLASSES - 1])
    if ends != _SUBSET_ENDS:
        raise InputError(
            f"the first 100 classes in {folder / 'train'} must run from {_SUBSET_ENDS[0]} to "
            f"{_SUBSET_ENDS[1]}; they run from {ends[0]} to {ends[1]}. Add the class folders that "
            'are missing, or use dataset "folder" for another subset.'
        )
    return Source(
        class_names=wnids,
        train=lambda: image_set(folder / "train", wnids, size, workers),
        test=lambda: image_set(folder / "val", wnids, size, workers),
    )


def open_tiny_imagenet(root: Path, size: int, workers: int) -> Source:
    """Tiny-ImageNet's own folders under `<root>/tiny-imagenet-200`."""
    folder = root / _TINY_ARCHIVE.folder
    if not (folder / "train").is_dir():
        raise missing("tiny-imagenet", folder / "train")
    wnids = _tiny_wnids(folder)
    return Source(
        class_names=_words(folder / "words.txt", wnids),
        train=lambda: image_set(folder / "train", wnids, size, workers, inner="images"),
        test=lambda: _annotated(folder / "val", wnids, size, workers),
    )


def _wnids(folder: Path) -> tuple[str, ...]:
    return tuple(name for name in subfolders(folder) if _WNID.fullmatch(name))


def _tiny_wnids(folder: Path) -> tuple[str, ...]:
    """The release's own list where there is one, so that a lost class folder is noticed."""
    listed = folder / "wnids.txt"
    wnids = tuple(sorted(_lines(listed))) if listed.is_file() else _wnids(folder / "train")
    wrong = [wnid for wnid in wnids if not _WNID.fullmatch(wnid)]
    if wrong or not wnids or len(set(wnids)) < len(wnids):
        raise InputError(
            f"{listed} must list distinct wnids such as n01443537; it does not. Run "
            "`remnant data get tiny-imagenet` to restore it."
        )
    return wnids


def _words(path: Path, wnids: tuple[str, ...]) -> tuple[str, ...]:
    """The first word for each class; the wnid where there is none or two classes share it."""
    words = {}
    for line in _lines(path) if path.is_file() else ():
        wnid, _, text = line.partition("\t")
        words[wnid] = text.split(",")[0].strip()
    times = Counter(words.get(wnid, "") for wnid in wnids)
    return tuple(
        words[wnid] if words.get(wnid) and times[words[wnid]] == 1 else wnid for wnid in wnids
    )


def _annotated(folder: Path, wnids: tuple[str, ...], size: int, workers: int) -> ImageSet:
    """`images/*`, labelled by `val_annotations.txt`: file name, wnid and four box corners."""
    path = folder / "val_annotations.txt"
    if not path.is_file():
        raise missing("tiny-imagenet", path)
    label_of = {wnid: label for label, wnid in enumerate(wnids)}
    names, labels = [], []
    for number, line in enumerate(_lines(path), 1):
        name, _, rest = line.partition("\t")
        wnid = rest.split("\t")[0]
        if wnid not in label_of or not re.fullmatch(r"\w+\.JPEG", name):
            raise InputError(
                f"{path}, line {number}, must give a JPEG file name and one of the {len(wnids)} "
                "wnids. Run `remnant data get tiny-imagenet` to restore the file."
            )
        names.append(f"images/{name}")
        labels.append(label_of[wnid])
    paths = PathTable.build(folder, names)
    return file_set(paths, torch.tensor(labels, dtype=torch.int64), size, workers)


def _lines(path: Path) -> list[str]:
    text = path.read_text("utf-8", errors="replace")
    return [line.strip() for line in text.splitlines() if line.strip()]
