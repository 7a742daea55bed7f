"""Presets of finetune. [pycil] Zhou et al., PyCIL, 2021."""

from remnant.methods.finetune import FinetuneConfig
from remnant.recipes.presets import RESNET8, RESNET32, Preset, Published, Setup, pycil
from remnant.recipes.protocols import DIGITS_SGD, MINI_SGD, USUAL

PRESET = Preset(
    name="finetune",
    protocols=(*USUAL, "imagenet-full-10"),
    setups={
        "digits": Setup(FinetuneConfig(backbone=RESNET8, first=DIGITS_SGD)),
        "mini": Setup(FinetuneConfig(backbone=RESNET32, first=MINI_SGD)),
        **pycil(
            FinetuneConfig, first=(60, 120, 170), epochs=80, later=(40, 70), softmax_over="new"
        ),
    },
    published=(Published("cifar100-10", 26, 9, None, "PyCIL family", "recalled", is_rough=True),),
)
