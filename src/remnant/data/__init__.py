"""From disk to `ImageSet`: seven data sets, their downloads and their checks."""

from __future__ import annotations

from remnant.data.archive_members import ARCHIVES, Archive, Member
from remnant.data.data_config import DataConfig, data_root
from remnant.data.datasets import Dataset, check_dataset, facts, load_dataset
from remnant.data.downloads import get_dataset
from remnant.data.facts import DATASETS, DatasetFacts
from remnant.data.file_images import FileImages, ResizedImages

__all__ = [
    "ARCHIVES",
    "DATASETS",
    "Archive",
    "DataConfig",
    "Dataset",
    "DatasetFacts",
    "FileImages",
    "Member",
    "ResizedImages",
    "check_dataset",
    "data_root",
    "facts",
    "get_dataset",
    "load_dataset",
]
