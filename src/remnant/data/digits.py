"""scikit-learn's handwritten digits, the data set that needs no download.

1,797 grey images of 8 x 8 pixels with levels 0 to 16. Chosen: every fifth image is test, because
the set is ordered by writer and both splits should hold all of them.
"""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image

from remnant.data.spec import DatasetFacts, DatasetSpec, Source
from remnant.images import ArrayImages, ImageSet

_SIZE = 32
_TEST_EVERY = 5

DIGITS = DatasetSpec(
    facts=DatasetFacts(
        name="digits",
        title="Handwritten digits",
        num_classes=10,
        image_size=_SIZE,
        train_per_class=144,
        test_per_class=36,
        mean=(0.3061, 0.3061, 0.3061),  # measured on the training images at 32 px
        std=(0.3239, 0.3239, 0.3239),
        default_num_tasks=5,
        source="scikit-learn",
    ),
    open=lambda config, size: open_digits(),
)


def open_digits() -> Source:
    """The digits as 32 x 32 x 3 images; ids are positions in scikit-learn's order."""
    return Source(
        class_names=tuple(str(digit) for digit in range(10)),
        train=lambda: _read(is_test=False),
        test=lambda: _read(is_test=True),
    )


def _read(*, is_test: bool) -> ImageSet:
    from sklearn.datasets import load_digits  # only here: it takes a second to import

    levels, labels = load_digits(return_X_y=True)
    ids = np.arange(len(labels))
    ids = ids[(ids % _TEST_EVERY == _TEST_EVERY - 1) == is_test]
    grey = np.rint(levels[ids] * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8)
    large = np.stack(
        [
            np.asarray(Image.fromarray(image).resize((_SIZE, _SIZE), Image.Resampling.BILINEAR))
            for image in grey
        ]
    )
    images = np.repeat(large[:, :, :, None], 3, axis=3)  # [N, 32, 32, 3]
    return ImageSet(
        ArrayImages(torch.from_numpy(images)),
        torch.from_numpy(labels[ids].astype(np.int64)),
        torch.from_numpy(ids),
    )
