"""From disk to `ImageSet`. To add a data set: a file beside this one and a name in the list below.

The file holds a `DatasetSpec`: facts, loader, and what to download or how to get it.
"""

from __future__ import annotations

from remnant.data.archive_members import ArchiveSpec, Member
from remnant.data.cifar import CIFAR10, CIFAR100
from remnant.data.datasets import Dataset, check_dataset, describe_dataset, load_dataset
from remnant.data.digits import DIGITS
from remnant.data.downloads import get_dataset
from remnant.data.folder import FOLDER
from remnant.data.imagenet import IMAGENET_FULL, IMAGENET_SUBSET, TINY_IMAGENET
from remnant.data.spec import (
    DATASETS,
    DataConfig,
    DatasetFacts,
    DatasetSpec,
    Source,
    data_root,
)

for _spec in (
    DIGITS,
    CIFAR10,
    CIFAR100,
    TINY_IMAGENET,
    IMAGENET_SUBSET,
    IMAGENET_FULL,
    FOLDER,
):
    DATASETS.register(_spec)

__all__ = [
    "DATASETS",
    "ArchiveSpec",
    "DataConfig",
    "Dataset",
    "DatasetFacts",
    "DatasetSpec",
    "Member",
    "Source",
    "check_dataset",
    "data_root",
    "describe_dataset",
    "get_dataset",
    "load_dataset",
]
