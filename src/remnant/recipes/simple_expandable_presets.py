"""Presets of Simple-DER. [simple] Li et al., 2021. [bimae] Zhai et al., ICCV 2023.

Chosen: all but the compression is as for DER, since [simple] gives no settings.
"""

from typing import Any

from remnant.methods.simple_expandable import SimpleExpandableConfig
from remnant.recipes.expandable_presets import CIFAR100, DIGITS, IMAGENET, MINI
from remnant.recipes.presets import Preset, Published, Setup, sgd
from remnant.recipes.protocols import USUAL


def _simple(der: dict[str, Any], epochs: int) -> SimpleExpandableConfig:
    """Chosen: compression at a tenth of the rate, in short runs for a fifth of the training."""
    size = der["first"].batch_size
    compression = sgd(epochs, size, lr=0.01, schedule="cosine", weight_decay=5e-4)
    return SimpleExpandableConfig(**der, compression=compression)


PRESET = Preset(
    name="simple-expandable",
    protocols=(*USUAL, "imagenet-full"),
    setups={
        "digits": Setup(_simple(DIGITS, 6)),
        "mini": Setup(_simple(MINI, 6)),
        "cifar100": Setup(_simple(CIFAR100, 30)),
        "imagenet": Setup(_simple(IMAGENET, 30)),
    },
    published=(
        Published(
            "imagenet-full",
            66.63,
            59.24,
            None,
            "[bimae] table 3",
            "its size from [dytox]",
            28.00,
        ),
        Published("imagenet-full", 85.62, 80.76, None, "[bimae] table 3", top=5),
    ),
)
