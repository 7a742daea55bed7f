"""Images as a user gave them -> uint8 RGB images of one size; their usual size and colours."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median_low

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from remnant.cores import usable_cores
from remnant.data.decode import FailingDiskError, decode_file, frame_picture, picture_size
from remnant.data.file_images import MAX_IN_MEMORY_BYTES, FileImages, PathTable
from remnant.errors import InputError
from remnant.images import ArrayImages, Images
from remnant.learner.inputs import Channels, FramedImage, RawImage, RawInputs

_WORKERS = max(1, min(8, usable_cores()))  # threads; Pillow lets them run at once
_SIZES_MEASURED = 200  # images whose sizes decide the size for all
_COLOURS_MEASURED = 4096  # images whose colours give mean and deviation
_MEASURED_AT_ONCE = 64  # of them, so that little memory is needed


def shorter_side(given: RawInputs) -> int:
    """The median of the shorter sides, in pixels, of a sample spread evenly over the images."""
    step = max(1, len(given) // _SIZES_MEASURED)
    sides, problem = [], None
    for index in range(0, len(given), step):
        try:
            sides.append(_shorter_side(given.items[index]))
        except InputError as error:
            problem = problem or error
    if not sides and problem is not None:
        raise problem
    return median_low(sides)


def _shorter_side(item: RawImage) -> int:
    if isinstance(item, np.ndarray):
        return min(item.shape[:2])
    if isinstance(item, Image.Image):
        return min(item.size)
    if isinstance(item, FramedImage):
        return min(item.pixels.shape[:2])
    return min(picture_size(item))


def read(given: RawInputs, size: int) -> Images:
    """The images as uint8 [size, size, 3], framed as `data.decode` frames them.

    They are held in memory, so that a damaged file is found before training starts. Files too
    large for that are decoded each time they are read.

    Raises:
        InputError: An image does not decode.
    """
    images, problems = try_each(given, size)
    if problems:
        raise InputError(next(iter(problems.values())))
    return images


def try_each(given: RawInputs, size: int) -> tuple[Images, dict[int, str]]:
    """As `read`, without the images that cannot be read: for these, why not, by position.

    Files too large to be held in memory are not tried.
    """
    if (large := _as_files(given, size)) is not None:
        return large, {}
    problems: dict[int, str] = {}
    images = np.empty((len(given), size, size, 3), np.uint8)

    def decode(index: int) -> None:
        try:
            images[index] = _framed(given.items[index], size, f"image {index}")
        except FailingDiskError:
            raise
        except InputError as error:
            problems[index] = str(error)

    if len(given) == 1:
        decode(0)
    else:
        with ThreadPoolExecutor(_WORKERS) as pool:
            for _ in pool.map(decode, range(len(given))):
                pass
    kept = [index for index in range(len(given)) if index not in problems]
    if not kept:
        raise InputError(problems[0])
    pixels = images[kept] if problems else images
    return ArrayImages(torch.from_numpy(pixels)), dict(sorted(problems.items()))


def _as_files(given: RawInputs, size: int) -> Images | None:
    """Files that are too large together to be held in memory."""
    if len(given) * size * size * 3 <= MAX_IN_MEMORY_BYTES:
        return None
    paths = [given.items[index] for index in range(len(given))]
    if not all(isinstance(path, Path) for path in paths):
        return None
    table = PathTable.build(Path(), (str(path) for path in paths))
    return FileImages(table, torch.arange(len(table)), size, _WORKERS)


def _framed(item: RawImage, size: int, name: str) -> np.ndarray:
    if isinstance(item, Path):
        return decode_file(item, size)
    if isinstance(item, FramedImage):
        if item.pixels.shape != (size, size, 3):
            raise InputError(f"{item.name} was read for another size of images. Send it again.")
        return item.pixels
    if isinstance(item, Image.Image):
        return frame_picture(item, size, name)
    return frame_picture(Image.fromarray(np.ascontiguousarray(item)), size, name)


def measure_colours(images: Images) -> tuple[Channels, Channels]:
    """Mean and standard deviation of each channel over a sample spread evenly over the images."""
    positions = torch.arange(0, len(images), -(-len(images) // _COLOURS_MEASURED))
    counts = torch.zeros(3, 256, dtype=torch.float64)  # of each level in each channel
    for some in positions.split(_MEASURED_AT_ONCE):
        pixels = images.read(some).flatten(0, 2).int()
        counts += torch.stack([channel.bincount(minlength=256) for channel in pixels.unbind(dim=1)])
    shares = counts / counts.sum(dim=1, keepdim=True)
    levels = torch.arange(256, dtype=torch.float64) / 255
    mean = shares @ levels
    variance = (shares * (levels - mean[:, None]) ** 2).sum(dim=1)
    # Views are divided by the deviation, which is 0 for images of one colour.
    return _as_channels(mean), _as_channels(variance.sqrt().clamp(min=1 / 255))


def _as_channels(values: Tensor) -> Channels:
    red, green, blue = (round(value, 4) for value in values.tolist())
    return red, green, blue
