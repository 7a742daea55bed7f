"""A data set of your own: stripes, drawn instead of read from files, learned in two tasks.

    python examples/own_dataset.py --out runs/stripes

`STRIPES` is all that remnant has to know of it. A program registers it, as `main` does here. A
package names it in its pyproject.toml; every command then knows "stripes" wherever the package is
installed:

    [project.entry-points."remnant.datasets"]
    stripes = "own_dataset:STRIPES"
"""

from __future__ import annotations

import argparse
import math

import torch

import remnant
from remnant.data import DATASETS, DataConfig, DatasetFacts, DatasetSpec, Source
from remnant.images import ArrayImages, ImageSet

SIZE, NUM_CLASSES, TRAIN_PER_CLASS, TEST_PER_CLASS = 16, 4, 40, 10


def open_stripes(config: DataConfig, size: int) -> Source:
    """Class k has k + 1 stripes. For images in files see `remnant.data.folder.image_set`."""
    return Source(
        class_names=tuple(f"{count} stripes" for count in range(1, NUM_CLASSES + 1)),
        train=lambda: draw(TRAIN_PER_CLASS, seed=1),
        test=lambda: draw(TEST_PER_CLASS, seed=2),
    )


def draw(per_class: int, seed: int) -> ImageSet:
    labels = torch.arange(NUM_CLASSES).repeat_interleave(per_class)
    phases = torch.rand(len(labels), 1, generator=torch.Generator().manual_seed(seed))
    turns = (labels[:, None] + 1) * torch.arange(SIZE) / SIZE + phases  # [N, W]
    levels = 128 + 100 * torch.sin(2 * math.pi * turns)
    pixels = levels.to(torch.uint8)[:, None, :, None].expand(-1, SIZE, -1, 3).contiguous()
    return ImageSet(ArrayImages(pixels), labels, torch.arange(len(labels)))


STRIPES = DatasetSpec(
    facts=DatasetFacts(
        name="stripes",
        title="Stripes",
        num_classes=NUM_CLASSES,
        image_size=SIZE,
        train_per_class=TRAIN_PER_CLASS,
        test_per_class=TEST_PER_CLASS,
        mean=(0.5, 0.5, 0.5),
        std=(0.28, 0.28, 0.28),
        default_num_tasks=2,
        source="examples/own_dataset.py",
    ),
    open=open_stripes,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=5, help="of each of the two tasks")
    parser.add_argument("--out", default="runs/stripes", help="a new folder for the run")
    arguments = parser.parse_args()

    DATASETS.register(STRIPES)
    settings = {
        "data.dataset": "stripes",
        "stream.num_tasks": 2,
        "method.first.epochs": arguments.epochs,
    }
    result = remnant.run("digits-er", arguments.out, settings=settings)
    print(f"{result['last_accuracy']:.1f} % right after {len(result['task_sizes'])} tasks")


if __name__ == "__main__":
    main()
