"""Presets of DER with pruning. [der] Yan et al., CVPR 2021. [bimae] Zhai et al., ICCV 2023."""

from remnant.methods.expandable_pruned import ExpandablePrunedConfig
from remnant.recipes.expandable_presets import CIFAR100, DIGITS, IMAGENET, MINI
from remnant.recipes.presets import Preset, Published, Setup
from remnant.recipes.protocols import USUAL

_SIZE = "its size is the mean over the tasks, recalled"

PRESET = Preset(
    name="expandable-pruned",
    protocols=(*USUAL, "imagenet-full"),
    setups={
        # Chosen: hard gates need steps to settle in, of which short epochs have few. At mini scale
        # the sparsity is tuned on a holdout to the published size, see the page of the method.
        "digits": Setup(ExpandablePrunedConfig(**DIGITS, max_scale=50.0)),
        "mini": Setup(ExpandablePrunedConfig(**MINI, max_scale=50.0, sparsity_weight=0.4)),
        "cifar100": Setup(ExpandablePrunedConfig(**CIFAR100), "the release of DER"),
        "imagenet": Setup(ExpandablePrunedConfig(**IMAGENET), "the release of DER"),
    },
    published=(
        Published("cifar100-10", 74.64, 64.35, 15.78, "[bimae] table 1", _SIZE, 4.96),
        Published("cifar100-20", 73.98, 62.55, 23.47, "[bimae] table 1", _SIZE, 7.21),
        Published("cifar100-50", 72.05, 59.76, 26.59, "[bimae] table 1", _SIZE, 10.15),
        Published("imagenet-subset-10", 76.12, 66.06, 15.09, "[bimae] table 2"),
        Published("imagenet-subset-20", 72.56, 61.51, 20.46, "[bimae] table 2"),
        Published("imagenet-subset-50", 69.77, 58.19, 25.35, "[bimae] table 2"),
        Published("imagenet-full", 66.73, 58.62, None, "[bimae] table 3"),
        Published("imagenet-full", 87.08, 81.89, None, "[bimae] table 3", top=5),
    ),
)
