"""From exemplars back to images that a method can train on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from remnant.contracts import ArrayImages, ImageSet
from remnant.memory.archive import StoredClass
from remnant.memory.exemplars import Codec


def decode_classes(
    codec: Codec, classes: Mapping[int, StoredClass], fill: Sequence[int] | None
) -> ImageSet | None:
    """All exemplars in label and rank order, unknown pixels in one colour; None if there are none.

    With `fill` None that colour is the mean of each image's own known pixels.
    """
    pairs = [(label, one) for label in sorted(classes) for one in classes[label].exemplars]
    if not pairs:
        return None
    pixels = np.empty((len(pairs), *codec.image_shape), dtype=np.uint8)
    is_known = None if codec.grid is None else np.ones((len(pairs), *codec.grid), dtype=bool)
    for index, (_, exemplar) in enumerate(pairs):
        image, known = codec.decode(exemplar)
        if known is not None and is_known is not None:
            is_known[index] = known
            image = _fill_unknown(image, known, fill)
        pixels[index] = image
    return ImageSet(
        ArrayImages(torch.from_numpy(pixels)),
        torch.tensor([label for label, _ in pairs], dtype=torch.int64),
        torch.arange(len(pairs)),
        None if is_known is None else torch.from_numpy(is_known),
    )


def _fill_unknown(
    image: np.ndarray, is_known: np.ndarray, fill: Sequence[int] | None
) -> np.ndarray:
    height, width, _ = image.shape
    rows, columns = height // is_known.shape[0], width // is_known.shape[1]
    pixels = is_known.repeat(rows, axis=0).repeat(columns, axis=1)  # [H, W]
    colour = image[pixels].mean(axis=0).round() if fill is None else np.asarray(fill)
    return np.where(pixels[..., None], image, colour.astype(np.uint8))
