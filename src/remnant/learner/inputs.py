"""User input in any of its forms -> images as they were given, and labels.

Files, arrays and labels are all checked: whatever cannot be used raises an error of one sentence
that names the image.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from remnant.data.decode import ENDINGS
from remnant.data.file_images import PathTable
from remnant.data.folder import list_images, subfolders
from remnant.errors import InputError

Label = str | int
Channels = tuple[float, float, float]  # one value for each of red, green and blue


@dataclass(frozen=True)
class FramedImage:
    """An image that was decoded to the learner's size before, of a file without a path."""

    name: str  # for errors
    pixels: np.ndarray  # uint8 [size, size, 3], as `data.decode` frames them


RawImage = np.ndarray | Image.Image | Path | FramedImage

_FORMS = (
    "images must be a folder, an array or tensor [N, H, W], [N, H, W, C] or [N, C, H, W], or a "
    "list of arrays, PIL images and paths"
)


@dataclass(frozen=True)
class RawInputs:
    """Images of any form and size as the user gave them, with their labels if there are any."""

    items: Sequence[RawImage] | PathTable
    labels: list[Label] | None
    # Sub-folders of class folders, and files that are no images by their names.
    skipped: tuple[Path, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    @property
    def classes(self) -> list[Label]:
        """The distinct labels: numbers in order, then names in alphabetical order."""
        return sorted(set(self.labels or ()), key=lambda label: (isinstance(label, str), label))


# ---------------------------------------------------------------------------------------- gathering


def gather(images: Any) -> RawInputs:
    """Images in any form that a learner accepts; a folder of class folders also gives labels.

    Raises:
        InputError: The form is not accepted, or there is no image.
    """
    if isinstance(images, str | os.PathLike):
        return _gather_path(_as_path(images))
    if isinstance(images, Image.Image):
        return RawInputs([_as_image(images, 0)], None)
    if isinstance(images, Tensor):
        images = images.detach().cpu().numpy()
    if isinstance(images, np.ndarray) and images.dtype.kind not in "OUS":
        return RawInputs(_split_array(images), None)
    if not isinstance(images, Iterable) or isinstance(images, bytes | dict):
        raise InputError(f"{_FORMS}; got {type(images).__name__}.")
    items = [_as_image(item, index) for index, item in enumerate(images)]
    if not items:
        raise InputError("there must be at least one image; got none.")
    return RawInputs(items, None)


def gather_labelled(images: Any, labels: Any) -> RawInputs:
    """Images with one label each, from `labels` or from the names of class folders.

    Raises:
        InputError: As `gather`, or labels are missing, given twice, too many, or of a wrong type.
    """
    given = gather(images)
    if given.labels is not None:
        if labels is None:
            return given
        raise InputError(
            "the names of a folder's sub-folders are its labels. Leave the labels out."
        )
    if labels is None:
        if isinstance(images, str | os.PathLike):
            raise InputError(
                f"a folder must hold one sub-folder of images per class; {_as_path(images)} is "
                f"{'an image' if _as_path(images).is_file() else 'a folder of images'}. Give the "
                "folder whose sub-folders are the classes."
            )
        raise InputError(
            "every image must have a label. Give labels, or a folder with a sub-folder per class."
        )
    if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
        raise InputError(f"labels must be a list or an array; got {type(labels).__name__}.")
    plain = [_as_label(label) for label in labels]
    if len(plain) != len(given):
        raise InputError(
            f"every image must have one label; got {len(given):,} images and {len(plain):,} labels."
        )
    return RawInputs(given.items, plain)


def _gather_path(path: Path) -> RawInputs:
    if path.is_file():
        return RawInputs([path], None)
    if not path.is_dir():
        raise InputError(f"{path} does not exist. Check the path.")
    names = subfolders(path)
    if not names:
        files = sorted(
            one
            for one in path.iterdir()
            if one.name.lower().endswith(ENDINGS) and not one.name.startswith(".")
        )
        if not files:
            raise InputError(
                f"{path} must hold a folder of images per class ({', '.join(ENDINGS)}); it holds "
                "neither folders nor images. Add them."
            )
        return RawInputs(files, None)
    paths, labels = list_images(path, names)
    named = [_as_label(names[label]) for label in labels.tolist()]
    return RawInputs(paths, named, tuple(_skipped(path, names)))


def _skipped(path: Path, names: Iterable[str]) -> Iterator[Path]:
    """What is visible in class folders and is not read: other files, and sub-folders."""
    for name in names:
        for one in sorted((path / name).iterdir()):
            is_image = one.name.lower().endswith(ENDINGS)
            is_hidden = one.name.startswith(".")
            if not is_image and not is_hidden and (one.is_file() or one.is_dir()):
                yield one.relative_to(path)


def _as_label(label: Any) -> Label:
    plain = label.item() if isinstance(label, np.generic | Tensor) else label
    if isinstance(plain, bool) or not isinstance(plain, str | int):
        raise InputError(
            f"a label must be text or a whole number; got {plain!r:.80}.{_label_remedy(plain)}"
        )
    if isinstance(plain, int):
        return plain
    try:
        plain.encode()
    except UnicodeEncodeError:
        raise InputError(f"a class name must be valid text; got {plain!r}. Rename it.") from None
    if not plain.strip():
        raise InputError("a class must have a name; got an empty one.")
    return str(plain)


def _label_remedy(label: Any) -> str:
    if isinstance(label, float) and label.is_integer():
        return " Give whole numbers, as labels.astype(int) has them."
    if isinstance(label, np.ndarray | Tensor | list | tuple):
        return " Give one class per image; for one row per image, labels.argmax(axis=1)."
    return ""


def _as_path(path: str | os.PathLike[str]) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InputError(f"{path} names a user that does not exist. Check the path.") from None


def _as_image(item: Any, index: int) -> RawImage:
    if isinstance(item, str | os.PathLike):
        return _as_path(item)
    if isinstance(item, Image.Image) and item.mode in ("F", "I") and item.format is None:
        return _as_pixels(np.asarray(item), f"image {index}")  # computed values, not 8-bit pixels
    if isinstance(item, Image.Image | FramedImage):
        return item
    if isinstance(item, Tensor):
        item = item.detach().cpu().numpy()
    if isinstance(item, np.ndarray):
        return _as_pixels(item, f"image {index}")
    raise InputError(f"image {index} must be an array, a PIL image or a path; got {item!r:.80}.")


# ------------------------------------------------------------------------------------------- arrays


def _split_array(array: np.ndarray) -> list[RawImage]:
    if array.ndim not in (3, 4) or 0 in array.shape[1:]:
        remedy = ""
        if array.ndim == 2:
            remedy = (
                " For one grey image, give images[None]; for flattened ones, "
                "images.reshape(-1, height, width)."
            )
        raise InputError(f"{_FORMS}; got an array of shape {list(array.shape)}.{remedy}")
    if len(array) == 0:
        raise InputError("there must be at least one image; got none.")
    return [_as_pixels(image, f"image {index}") for index, image in enumerate(array)]


def _as_pixels(image: np.ndarray, name: str) -> np.ndarray:
    """uint8 [H, W] or [H, W, 3 or 4]."""
    if image.ndim == 3 and image.shape[2] not in (1, 3, 4) and image.shape[0] in (1, 3):
        image = image.transpose(1, 2, 0)  # channels first
    if image.ndim == 3 and image.shape[2] == 1:
        image = image[:, :, 0]
    is_picture = image.ndim == 2 or (image.ndim == 3 and image.shape[2] in (3, 4))
    if not is_picture or 0 in image.shape:
        raise InputError(f"{name} must be [H, W] or [H, W, C]; got shape {list(image.shape)}.")
    return _as_bytes(image, name)


def _as_bytes(image: np.ndarray, name: str) -> np.ndarray:
    if image.dtype == np.uint8:
        return image
    kind, limit = image.dtype.kind, 1 if image.dtype.kind == "f" else 255
    if kind not in "fiu":
        raise InputError(f"{name} must hold bytes or floats from 0 to 1; got {image.dtype}.")
    if kind == "f" and not np.isfinite(image).all():
        raise InputError(
            f"{name} must hold finite numbers; got NaN or infinity. Replace them, or leave it out."
        )
    low, high = image.min(), image.max()
    if not (low >= 0 and high <= limit):
        raise InputError(
            f"{name} must hold whole numbers from 0 to 255 or floats from 0 to 1; got "
            f"{image.dtype} from {_short(low)} to {_short(high)}. Scale it."
        )
    levels = image.astype(np.float64) * 255 if kind == "f" else image
    return np.rint(levels).astype(np.uint8)


def _short(value: np.number) -> str:
    """Three digits of a float."""
    return f"{value:.3g}" if value.dtype.kind == "f" else str(value)
