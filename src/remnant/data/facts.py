"""What is known of every data set without opening it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Channels = tuple[float, float, float]  # red, green, blue, as shares of 255

_CIFAR100: tuple[Channels, Channels] = ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))
_CIFAR10: tuple[Channels, Channels] = ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
_IMAGENET: tuple[Channels, Channels] = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
# Measured on the training images at 32 px.
_DIGITS: tuple[Channels, Channels] = ((0.3061, 0.3061, 0.3061), (0.3239, 0.3239, 0.3239))

_IMAGENET_SOURCE = "https://image-net.org (needs an account)"


@dataclass(frozen=True)
class DatasetFacts:
    """A data set as the tables of `remnant show` and `remnant data list` need it."""

    name: str
    title: str
    num_classes: int  # 0: only the user's folder knows
    image_size: int
    train_per_class: int  # the mean where classes differ; 0: only the user's folder knows
    test_per_class: int
    mean: Channels
    std: Channels
    default_order: Literal["identity", "icarl", "seed-1993"]
    default_num_tasks: int
    source: str
    download_bytes: int | None = None  # None: `remnant data get` has nothing to download
    channels: int = 3


# fmt: off
_TABLE = (
    DatasetFacts("digits", "Handwritten digits", 10, 32, 144, 36, *_DIGITS, "identity", 5, "scikit-learn"),  # noqa: E501
    DatasetFacts("cifar10", "CIFAR-10", 10, 32, 5000, 1000, *_CIFAR10, "identity", 5, "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", 170_052_171),  # noqa: E501
    DatasetFacts("cifar100", "CIFAR-100", 100, 32, 500, 100, *_CIFAR100, "icarl", 10, "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz", 168_513_733),  # noqa: E501
    DatasetFacts("tiny-imagenet", "Tiny-ImageNet", 200, 64, 500, 50, *_IMAGENET, "identity", 10, "http://cs231n.stanford.edu/tiny-imagenet-200.zip", 248_100_043),  # noqa: E501
    DatasetFacts("imagenet-subset", "ImageNet-Subset", 100, 224, 1294, 50, *_IMAGENET, "seed-1993", 10, _IMAGENET_SOURCE),  # noqa: E501
    DatasetFacts("imagenet-full", "ImageNet-Full", 1000, 224, 1281, 50, *_IMAGENET, "seed-1993", 10, _IMAGENET_SOURCE),  # noqa: E501
    DatasetFacts("folder", "Folder of images", 0, 224, 0, 0, *_IMAGENET, "identity", 1, "your own images"),  # noqa: E501
)
# fmt: on

DATASETS = {facts.name: facts for facts in _TABLE}
