"""Which data a run uses and where it lies."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field, field_validator, model_validator

from remnant.data.facts import DATASETS
from remnant.errors import InputError, nearest
from remnant.settings import Settings


class DataConfig(Settings):
    """A data set, how much of it is used, and at which size."""

    dataset: str
    root: str | None = None  # holds the data sets; None: $REMNANT_DATA, else the user cache folder
    path: str | None = None  # the folder itself, for dataset="folder" alone
    image_size: int | None = Field(default=None, ge=8, le=2048)  # None: native, 224 if large
    images_per_class: int | None = Field(default=None, ge=1)  # the first ones by id; None: all
    # The share of each class's training images that is evaluated in place of the test images,
    # which then are never opened.
    holdout_ratio: float = Field(default=0.0, ge=0, lt=1)
    workers: int = Field(default=2, ge=1, le=256)  # threads that decode large images

    @field_validator("dataset")
    @classmethod
    def _is_known(cls, name: str) -> str:
        return known_name(name)

    @model_validator(mode="after")
    def _has_path_for_folder_alone(self) -> DataConfig:
        if self.dataset == "folder" and self.path is None:
            raise ValueError('dataset "folder" needs data.path, the folder that holds the images')
        if self.dataset != "folder" and self.path is not None:
            raise ValueError(
                f'data.path belongs to dataset "folder"; got dataset "{self.dataset}". '
                "Set data.root instead."
            )
        return self


def known_name(name: str) -> str:
    """`name` if it is a data set; else an InputError that names the nearest one."""
    if name in DATASETS:
        return name
    hint = nearest(name, DATASETS)
    raise InputError(f'dataset must be one of {", ".join(DATASETS)}; got "{name}".{hint}')


def data_root(root: str | None) -> Path:
    """The folder that holds the data sets: `root`, else $REMNANT_DATA, else the user cache."""
    chosen = root or os.environ.get("REMNANT_DATA")
    if chosen:
        return Path(chosen).expanduser()
    import pooch  # only here: it imports an HTTP client

    return Path(pooch.os_cache("remnant"))
