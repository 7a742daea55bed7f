"""What a data set is (`DatasetSpec`), the table of all of them, and the config that chooses one.

A data set is one object in the file of its loader. The package's own are listed in `remnant.data`;
another package adds one under the entry point `remnant.datasets`, a program with
`DATASETS.register(spec)`. `examples/own_dataset.py` is one from end to end.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from pydantic import Field, field_validator, model_validator

from remnant.data.archive_members import ArchiveSpec
from remnant.errors import InputError
from remnant.images import ImageSet, Shape
from remnant.registry import Registry
from remnant.settings import Settings

Channels = tuple[float, float, float]  # red, green, blue, as shares of 255
ProgressCallback = Callable[[int, int | None], None]  # how much is done, and of how much if known

# Of the training images of ImageNet; also used where a data set's own are unknown.
IMAGENET_MEAN: Channels = (0.485, 0.456, 0.406)
IMAGENET_STD: Channels = (0.229, 0.224, 0.225)


@dataclass(frozen=True, kw_only=True)
class DatasetFacts:
    """What is known of a data set without opening its files."""

    name: str
    title: str
    num_classes: int  # 0: only the files tell; the image counts are then 0 as well
    image_size: int  # px; the side of the images unless data.image_size says otherwise
    channels: int = 3
    train_per_class: int  # the mean where classes differ
    test_per_class: int
    mean: Channels
    std: Channels
    default_order: str = "identity"  # a name of `class_orders`
    default_num_tasks: int
    source: str  # where it comes from
    download_bytes: int | None = None  # None: `remnant data get` has nothing to download

    @property
    def image_shape(self) -> Shape:
        return self.image_size, self.image_size, self.channels


@dataclass(frozen=True)
class Source:
    """A data set found on disk; a split is read when it is called, never before.

    Images are held in an array, at any size, or read from files at the size that `open` was given.
    """

    class_names: tuple[str, ...]
    train: Callable[[], ImageSet]
    test: Callable[[], ImageSet]


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """A data set: its facts, how to open it, and how to get and check its files."""

    facts: DatasetFacts
    open: Callable[[DataConfig, int], Source]  # given the side of the images in px
    archive: ArchiveSpec | None = None  # what `remnant data get` downloads
    # Without an archive: what the user must do, with {root} for the data root; "": nothing.
    how_to_get: str = ""
    marker: str = ""  # without an archive: what exists under the data root if the files are there
    needs_path: bool = False  # its files are at data.path, not under the data root
    # Whether every class has exactly as many images as the facts say; a check then counts them.
    has_exact_counts: bool = False
    # Verifies the files under the data root, a line for each; None: a check decodes every image.
    check: Callable[[Path], list[str]] | None = None

    @property
    def place_setting(self) -> str:
        """The setting that says where its images are."""
        return "data.path" if self.needs_path else "data.root"

    @property
    def name(self) -> str:
        return self.facts.name

    def is_present(self, root: Path) -> bool:
        """Whether the files seem to be under the data root; their contents are not read."""
        if self.archive is not None:
            return self.archive.is_complete(root)
        return (root / self.marker).exists() if self.marker else True


def _check_spec(spec: DatasetSpec) -> None:
    if not isinstance(spec, DatasetSpec):
        raise InputError(f"a data set must be a DatasetSpec; got {spec!r:.80}.")


DATASETS: Registry[DatasetSpec] = Registry(
    "data set", "remnant.datasets", name_of=lambda spec: spec.name, check=_check_spec
)


class DataConfig(Settings):
    """A data set, how much of it is used, and at which size."""

    dataset: str  # a name in `DATASETS`
    root: str | None = None  # holds the data sets; None: $REMNANT_DATA, else the user cache folder
    path: str | None = None  # the folder itself, for a data set that needs one: "folder"
    image_size: int | None = Field(default=None, ge=8, le=2048)  # None: native, 224 if large
    images_per_class: int | None = Field(default=None, ge=1)  # the first ones by id; None: all
    # The share of each class's training images that is evaluated in place of the test images,
    # which then are never opened.
    holdout_ratio: float = Field(default=0.0, ge=0, lt=1)
    workers: int = Field(default=2, ge=1, le=256)  # threads that decode large images

    @field_validator("dataset")
    @classmethod
    def _is_known(cls, name: str) -> str:
        return DATASETS.find(name, "data.dataset").name

    @model_validator(mode="after")
    def _has_path_if_needed(self) -> DataConfig:
        needs_path = DATASETS[self.dataset].needs_path
        if needs_path and self.path is None:
            raise InputError(
                f'dataset "{self.dataset}" needs data.path, the folder that holds the images.'
            )
        if not needs_path and self.path is not None:
            raise InputError(
                f'data.path must be left out for dataset "{self.dataset}", whose files are under '
                "the data root. Set data.root instead."
            )
        return self


def data_root(root: str | None) -> Path:
    """The folder that holds the data sets: `root`, else $REMNANT_DATA, else the user cache."""
    chosen = root or os.environ.get("REMNANT_DATA")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("remnant"))


def missing(name: str, path: Path, *, can_download: bool = True) -> InputError:
    """The error for files that are not where the data set keeps them."""
    get = f"Run `remnant data get {name}`, or put" if can_download else "Put"
    return InputError(
        f"{name} is expected at {path}, which does not exist. {get} the files there, or point "
        "--data-root or $REMNANT_DATA at the folder that holds them."
    )
