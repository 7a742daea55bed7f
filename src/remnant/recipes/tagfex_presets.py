"""Presets of TagFex. [tagfex] Zheng et al., CVPR 2025."""

from remnant.methods.backbones import BackboneConfig
from remnant.methods.tagfex import TagFexConfig
from remnant.phases import Schedule
from remnant.recipes.presets import RESNET8, RESNET32, Preset, Published, Setup, sgd
from remnant.recipes.protocols import CIFAR100, DIGITS_SGD, LITE, MINI_SGD, SMALL


def _in_pairs(schedule: Schedule) -> Schedule:
    return schedule.model_copy(update={"views_per_image": 2})


# Released: 200 and then 170 epochs of 128 images, two views each. Here a batch counts views, and an
# epoch of pairs has half of the images.
_FIRST = _in_pairs(sgd(400, 256, milestones=(120, 240, 340), weight_decay=5e-4))
_LATER = _in_pairs(sgd(340, 256, milestones=(160, 240, 300), weight_decay=2e-4))


def _small(backbone: BackboneConfig, first: Schedule) -> TagFexConfig:
    # Chosen: a projector in proportion to features of 64 in place of 512.
    return TagFexConfig(
        backbone=backbone,
        first=_in_pairs(first),
        projector_hidden_width=256,
        projector_width=128,
    )


PRESET = Preset(
    name="tagfex",
    protocols=(*SMALL, *LITE, *CIFAR100),
    setups={
        "digits": Setup(_small(RESNET8, DIGITS_SGD)),
        "mini": Setup(_small(RESNET32, MINI_SGD)),
        "cifar100": Setup(
            TagFexConfig(first=_FIRST, later=_LATER),
            "its release",
            order="seed-1993",
            rand_augment=True,
        ),
    },
    published=(
        Published("cifar100-10", 78.45, 68.23, None, "[tagfex]", "AutoAugment", parameters=112),
        Published(
            "cifar100-10",
            78.76,
            None,
            None,
            "re-run, github.com/TiagoSanti/TagFex_CVPR2025",
            "3 seeds, ± 0.77",
        ),
        Published(
            "cifar100-10",
            79.04,
            70.36,
            None,
            "re-run, github.com/TiagoSanti/TagFex_CVPR2025",
            "one run",
        ),
    ),
)
