"""Full-scale recipes have the settings that papers, releases and toolboxes give.

A second copy of rates, milestones, decays, clamps, sizes of batches and all else that a recipe sets
apart from the defaults of its method, compared with its sources, so that a slip is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from remnant.config import RunConfig
from remnant.phases import Schedule
from remnant.recipes import RECIPES, load_recipe
from remnant.views.augment import AugmentConfig
from tests.support.spelled_schedules import DER_TUNING, spell_schedule

AT_224_PX = "backbone: name=resnet18 stem=large"
PYCIL_FIRST = "first: 200 epochs of 128, sgd 0.1, decay 0.0005, x0.1 at 60 120 170"
LARGE_PYCIL_FIRST = PYCIL_FIRST.replace("128", "256")
LWF_FIRST = "first: 200 epochs of 128, sgd 0.1, decay 0.0005, x0.1 at 60 120 160"
DER = "first: 170 epochs of 128, sgd 0.1, decay 0.0005, x0.1 at 110 130, warm-up 10 from 0"
DER_224_PX = (
    "first: 220 epochs of 256, sgd 0.1, decay 0.0005, x0.1 at 80 140 180 200, warm-up 20 from 0"
)
DYTOX = (
    "first: 500 epochs of 256, adamw 0.00025, decay 1e-06 of weights, cosine to 1e-05, "
    "warm-up 5 from 1e-06, 3 views"
)
DYTOX_TUNING = "balanced_tuning: 20 epochs of 256, adamw 2.5e-05, decay 1e-06 of weights, constant"
BIC_CORRECTION = "correction: 200 epochs of 128, sgd 0.1, decay 0, x0.1 at 60 120 160 180"
BIMAE = "first: 400 epochs of 1024, adam 0.0001, decay 0, cosine"

# At 32 px: zero-pad 4, crop and flip are standard; so in iCaRL, PyCIL, PODNet, DER, PASS and DyTox.
# The brightness of PyCIL, PODNet, DER and PASS is left out: see "Departures" in docs/methods. The
# paper of Bilateral MAE gives nothing for 32 px.
# At 224 px: a crop of any size and a flip are standard; so in DER, DyTox and CIM, without CIM's
# brightness and AutoAugment. BiC's release differs: shorter side of 256 to 512 px, crop, flip.
AUGMENT = {"cifar100": "augment: crop-flip, padding 4", "imagenet": "augment: resized-crop-flip"}

SETTINGS: dict[str, list[str]] = {
    # PyCIL: https://github.com/G-U-N/PyCIL, models/{finetune,replay,lwf,ewc,wa}.py
    "cifar100-finetune-10": [
        *("order: seed-1993", PYCIL_FIRST, "softmax_over: new"),
        "later: 80 epochs of 128, sgd 0.1, decay 0.0002, x0.1 at 40 70",
    ],
    "cifar100-er-10": [
        *("budget: 2000images", "order: seed-1993", PYCIL_FIRST),
        "later: 70 epochs of 128, sgd 0.1, decay 0.0002, x0.1 at 30 50",
    ],
    "cifar100-lwf-10": [
        *("order: seed-1993", LWF_FIRST),
        "later: 250 epochs of 128, sgd 0.1, decay 0.0002, x0.1 at 60 120 180 220",
    ],
    "cifar100-ewc-10": [
        *("order: seed-1993", PYCIL_FIRST),
        "later: 180 epochs of 128, sgd 0.1, decay 0.0002, x0.1 at 70 120 150",
    ],
    "cifar100-wa-10": [
        *("budget: 2000images", "order: seed-1993", PYCIL_FIRST),
        "later: 170 epochs of 128, sgd 0.1, decay 0.0002, x0.1 at 60 100 140",
    ],
    # mammoth: https://github.com/aimagelab/mammoth, derpp on CIFAR-100; later tasks have 50 passes
    # over new images, a third of each batch.
    "cifar100-derpp-10": [
        *("budget: 2000images", "backbone: name=resnet18", "selection: random"),
        "first: 50 epochs of 32, sgd 0.03 momentum 0, decay 0, x0.2 at 35 45",
        "later: 150 epochs of 96, sgd 0.03 momentum 0, decay 0, x0.2 at 105 135, 1/3 new",
    ],
    # mammoth's schedule for CIFAR-100, with as many replayed images as new ones.
    "cifar100-a-gem-10": [
        *("budget: 2000images", "backbone: name=resnet18"),
        "first: 50 epochs of 32, sgd 0.03 momentum 0, decay 0, x0.2 at 35 45",
        "later: 100 epochs of 64, sgd 0.03 momentum 0, decay 0, x0.2 at 70 90, 1/2 new",
    ],
    # PyCIL: models/gem.py, 100 epochs of 128 new images at 30, 60 and 80.
    "cifar100-gem-10": [
        *("budget: 2000images", "order: seed-1993", PYCIL_FIRST, "margin: 0.0"),
        "later: 200 epochs of 256, sgd 0.1, decay 0.0002, x0.1 at 60 120 160, 1/2 new",
    ],
    # Released: https://github.com/Impression2805/CVPR21_PASS
    "cifar100-pass-10": [
        "order: seed-1993",
        "first: 101 epochs of 64, adam 0.001, decay 0.0002, x0.1 at 45 90",
    ],
    # Chosen: PyCIL's schedules for CIFAR-100 in batches of 256.
    "imagenet-subset-finetune-10": [
        *(AT_224_PX, LARGE_PYCIL_FIRST, "softmax_over: new"),
        "later: 80 epochs of 256, sgd 0.1, decay 0.0002, x0.1 at 40 70",
    ],
    "imagenet-subset-er-10": [
        *("budget: 2000images", AT_224_PX, LARGE_PYCIL_FIRST),
        "later: 70 epochs of 256, sgd 0.1, decay 0.0002, x0.1 at 30 50",
    ],
    "imagenet-subset-lwf-10": [
        *(AT_224_PX, LWF_FIRST.replace("128", "256")),
        "later: 250 epochs of 256, sgd 0.1, decay 0.0002, x0.1 at 60 120 180 220",
    ],
    "imagenet-subset-ewc-10": [
        *(AT_224_PX, LARGE_PYCIL_FIRST),
        "later: 180 epochs of 256, sgd 0.1, decay 0.0002, x0.1 at 70 120 150",
    ],
    "imagenet-subset-wa-10": [
        *("budget: 2000images", AT_224_PX, LARGE_PYCIL_FIRST),
        "later: 170 epochs of 256, sgd 0.1, decay 0.0002, x0.1 at 60 100 140",
    ],
    # The usual schedule for CIFAR-100.
    "cifar100-joint": [LWF_FIRST, "order: seed-1993"],
    "imagenet-subset-joint": [AT_224_PX, LWF_FIRST.replace("128", "256")],
    # Released: https://github.com/srebuffi/iCaRL
    "cifar100-icarl-10": [
        *("average_over: stream", "budget: 2000images", "order: icarl"),
        "first: 70 epochs of 128, sgd 2, decay 2e-05, x0.2 at 49 63",
    ],
    "imagenet-subset-icarl-10": [
        *("average_over: stream", AT_224_PX, "budget: 2000images"),
        "first: 60 epochs of 128, sgd 2, decay 1e-05, x0.2 at 20 30 40 50",
    ],
    # Released: https://github.com/sntc129/MECIL
    "cifar100-mecil-10": [
        *("average_over: stream", "budget: 2000images", "codec: downscaled", "order: icarl"),
        "first: 70 epochs of 128, sgd 2, decay 2e-05, x0.2 at 49 63",
    ],
    # Released: https://github.com/hshustc/CVPR19_Incremental_Learning
    "cifar100-ucir-10": [
        *("budget: 20images/class", "order: seed-1993"),
        "first: 160 epochs of 128, sgd 0.1, decay 0.0005, x0.1 at 80 120",
    ],
    "imagenet-subset-ucir-10": [
        "backbone: name=resnet18 shortcut=project stem=large has_last_relu=False",
        *("budget: 20images/class", "less_forget_weight: 10.0"),
        "first: 90 epochs of 128, sgd 0.1, decay 0.0001, x0.1 at 30 60",
    ],
    # Released: https://github.com/xialeiliu/GFR-IL
    "cifar100-gfr-10": [
        "first: 201 epochs of 128, adam 0.001, decay 0.0002, x0.1 at 200",
        *("generation: 501 epochs of 128, adam 0.0001 betas 0.5 0.999, decay 0, x0.3 at 200 400",),
        "order: seed-1993",
    ],
    "imagenet-subset-gfr-10": [
        *(AT_224_PX, "first: 101 epochs of 128, adam 0.001, decay 0.0002, x0.1 at 100"),
        "generation: 201 epochs of 128, adam 0.0001 betas 0.5 0.999, decay 0, x0.3 at 200",
    ],
    # Released: https://github.com/yaoyao-liu/class-incremental-learning, but for the pixels
    "cifar100-mnemonics-10": [
        *("budget: 20images/class", "order: seed-1993"),
        "first: 160 epochs of 128, sgd 0.1, decay 0.0005, x0.1 at 80 120",
        "pixels: 1 epochs of 128, adam 0.01, decay 0, cosine",
    ],
    # As UCIR. Released: https://github.com/lywang3081/MRDC
    "cifar100-mrdc-10": [
        *("budget: 20images/class", "codec: jpeg quality=75", "order: seed-1993"),
        "first: 160 epochs of 128, sgd 0.1, decay 0.0005, x0.1 at 80 120",
    ],
    "imagenet-subset-mrdc-10": [
        "backbone: name=resnet18 shortcut=project stem=large has_last_relu=False",
        *("base: less_forget_weight=10.0", "budget: 20images/class"),
        *("codec: jpeg quality=75",),
        "first: 90 epochs of 128, sgd 0.1, decay 0.0001, x0.1 at 30 60",
    ],
    # Released: https://github.com/xfflzl/CIM-CIL, for ImageNet-Subset; the base is another. Chosen:
    # how often masks move, for about 5 times in an epoch of ten classes
    "cifar100-cim-10": [
        *("backbone: name=resnet18", "budget: 2000images", "codec: boxed", "order: seed-1993"),
        "mask_every: 5",
        "first: 200 epochs of 256, sgd 0.1, decay 0.0005, cosine",
        "later: 170 epochs of 256, sgd 0.1, decay 0.0005, cosine",
    ],
    "imagenet-subset-cim-10": [
        *(AT_224_PX, "budget: 2000images", "codec: boxed"),
        "first: 200 epochs of 256, sgd 0.1, decay 0.0005, cosine",
        "later: 170 epochs of 256, sgd 0.1, decay 0.0005, cosine",
    ],
    # FACIL on CIFAR-100; released: https://github.com/wuyuebupt/LargeScaleIncrementalLearning
    "cifar100-bic-10": [
        *("budget: 2000images", BIC_CORRECTION, "order: icarl"),
        "first: 250 epochs of 128, sgd 0.1, decay 0.0002, x0.1 at 100 150 200",
    ],
    "imagenet-subset-bic-10": [
        *(AT_224_PX, "budget: 2000images", BIC_CORRECTION),
        "first: 100 epochs of 256, sgd 0.1, decay 0.0001 of weights, x0.1 at 30 60 80 90",
    ],
    # Released: https://github.com/arthurdouillard/incremental_learning.pytorch
    "cifar100-podnet-10": [
        *("budget: 20images/class", "order: icarl"),
        "first: 160 epochs of 128, sgd 0.1, decay 0.0005, cosine, clamp 5",
        "balanced_tuning: 20 epochs of 128, sgd 0.05, decay 0.0005, constant, clamp 5",
    ],
    "imagenet-subset-podnet-10": [
        "backbone: name=resnet18 stem=pooled has_last_relu=False",
        *("budget: 20images/class", "flat_weight: 10.0", "spatial_weight: 8.0"),
        "first: 90 epochs of 64, sgd 0.05, decay 0.0005, cosine, clamp 5",
        "balanced_tuning: 20 epochs of 64, sgd 0.01, decay 0.0005, constant, clamp 5",
    ],
    # Released: https://github.com/Rhyssiyan/DER-ClassIL.pytorch
    "cifar100-expandable-10": ["budget: 2000images", DER, DER_TUNING],
    "cifar100-expandable-pruned-10": ["budget: 2000images", DER, DER_TUNING],
    "cifar100-simple-expandable-10": [
        *("budget: 2000images", DER, DER_TUNING),
        "compression: 30 epochs of 128, sgd 0.01, decay 0.0005, cosine",
    ],
    "imagenet-subset-expandable-10": [
        *(AT_224_PX, "budget: 2000images", DER_224_PX, "tuning_temperature: 1.0"),
        DER_TUNING.replace("128", "256"),
    ],
    "imagenet-subset-expandable-pruned-10": [
        *(AT_224_PX, "budget: 2000images", DER_224_PX, "tuning_temperature: 1.0"),
        DER_TUNING.replace("128", "256"),
    ],
    "imagenet-subset-simple-expandable-10": [
        *(AT_224_PX, "budget: 2000images", DER_224_PX, "tuning_temperature: 1.0"),
        DER_TUNING.replace("128", "256"),
        "compression: 30 epochs of 256, sgd 0.01, decay 0.0005, cosine",
    ],
    # Released: https://github.com/bwnzheng/TagFex_CVPR2025, 200 and 170 epochs of 128 pairs
    "cifar100-tagfex-10": [
        *("budget: 2000images", "order: seed-1993", "rand_augment"),
        "first: 400 epochs of 256, sgd 0.1, decay 0.0005, x0.1 at 120 240 340, 2 views",
        "later: 340 epochs of 256, sgd 0.1, decay 0.0002, x0.1 at 160 240 300, 2 views",
    ],
    # Released: https://github.com/arthurdouillard/dytox, two GPUs of 128 images each
    "cifar100-dytox-10": [
        *("budget: 2000images", DYTOX, f"{DYTOX_TUNING}, 3 views", "order: icarl", "rand_augment"),
    ],
    "cifar100-dytox-plus-10": [
        *("budget: 2000images", DYTOX, f"{DYTOX_TUNING}, 3 views", "order: icarl", "rand_augment"),
        "mixup: alpha=0.8 label_smoothing=0.1",
    ],
    "cifar100-dytox-masked-10": [
        *("budget: 2000images", DYTOX, f"{DYTOX_TUNING}, 3 views", "order: icarl", "rand_augment"),
        *("codec: patches", "pixels alone count"),
    ],
    "imagenet-subset-dytox-10": [
        *("budget: 2000images", DYTOX, DYTOX_TUNING, "network: patch_size=16", "rand_augment"),
    ],
    "imagenet-subset-dytox-plus-10": [
        *("budget: 2000images", DYTOX, DYTOX_TUNING, "network: patch_size=16", "rand_augment"),
        "mixup: alpha=0.8 label_smoothing=0.1",
    ],
    # The paper, section 4.1.
    "cifar100-bimae-10": [
        *(BIMAE, "budget: 20images/class", "codec: patches", "pixels alone count"),
    ],
    "imagenet-subset-bimae-10": [
        *(BIMAE, "budget: 20images/class", "codec: patches patch_size=16", "pixels alone count"),
        "network: patch_size=16",
    ],
}
# Of the paper's tables 4 to 7: what differs from `cifar100-bimae-10`.
ABLATIONS: dict[str, list[str]] = {
    "baseline": ["codec: raw", "has_detail_branch: False", "reconstruction: off"],
    "replay": ["has_detail_branch: False", "reconstruction: decoder"],
    "reconstruction": ["has_detail_branch: False"],
    "mask60": ["codec: patches mask_ratio=0.6", "coarse_mask_ratio: 0.6", "mask_ratio: 0.6"],
    "mask90": ["codec: patches mask_ratio=0.9", "coarse_mask_ratio: 0.9", "mask_ratio: 0.9"],
    "real-bytes": ["codec: raw"],
    "real-count": ["codec: raw", "budget: 80images/class"],
    "spatial": ["detail_domain: spatial"],
    "mlp768": ["network: mlp_width=768"],
    "fine10": ["fine_mask_ratio: 0.1"],
    "fine20": ["fine_mask_ratio: 0.2"],
    "fine30": ["fine_mask_ratio: 0.3"],
    "fine50": ["fine_mask_ratio: 0.5"],
    "fine60": ["fine_mask_ratio: 0.6"],
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_full_scale_recipe_has_the_published_settings(name: str) -> None:
    expected = [AUGMENT[RECIPES[name].protocol.scale], *SETTINGS[name]]
    assert sorted(spelled(load_recipe(name))) == sorted(expected)


def test_all_recipes_of_a_full_scale_crop_and_flip_alike() -> None:
    """Those of more tasks, of ImageNet-Full and of our best options too."""
    full_scale = [name for name, one in RECIPES.items() if one.protocol.scale in AUGMENT]
    assert {"cifar100-podnet-50", "imagenet-full-dytox", "cifar100-best-10"} < set(full_scale)
    for name in full_scale:
        found = spell_augment(load_recipe(name).augment)
        assert found == AUGMENT[RECIPES[name].protocol.scale], name


@pytest.mark.parametrize("variant", ABLATIONS)
def test_an_ablation_differs_from_the_method_as_the_paper_says(variant: str) -> None:
    whole = {AUGMENT["cifar100"], *SETTINGS["cifar100-bimae-10"]}
    changed = {line.partition(":")[0] for line in ABLATIONS[variant]}
    kept = {line for line in whole if line.partition(":")[0] not in changed}
    found = set(spelled(load_recipe(f"cifar100-bimae-{variant}-10")))
    assert found == kept | set(ABLATIONS[variant])


def test_the_table_has_every_method_and_variant_at_both_full_scales() -> None:
    named = {*SETTINGS, *(f"cifar100-bimae-{variant}-10" for variant in ABLATIONS)}
    kinds = {
        (recipe.preset.name, recipe.protocol.scale): name
        for name, recipe in RECIPES.items()
        if recipe.protocol.scale in ("cifar100", "imagenet") and recipe.preset.name != "best"
    }  # the best options are ours: nobody published them
    covered = {(RECIPES[name].preset.name, RECIPES[name].protocol.scale) for name in named}
    assert set(kinds) == covered


@pytest.mark.parametrize("name", ["er-10", "icarl", "expandable", "dytox"])
def test_ten_times_as_many_classes_have_ten_times_as_many_exemplars(name: str) -> None:
    memory = load_recipe(f"imagenet-full-{name}").memory
    assert memory is not None
    assert memory.budget == "20000images"


def spelled(config: RunConfig) -> Iterator[str]:
    """What a config sets apart from defaults, one line each; schedules, crops, budgets always."""
    for name, value in config.method:
        default = type(config.method).model_fields[name].default
        if isinstance(value, Schedule):
            yield f"{name}: {spell_schedule(value)}"
        elif isinstance(value, BaseModel) and value != default:
            # A base has the schedule of the method around it, which is spelled already.
            changes = value.model_dump(exclude={"first"}, exclude_defaults=default is not None)
            yield f"{name}: {' '.join(f'{key}={change}' for key, change in changes.items())}"
        elif value != default:
            yield f"{name}: {value}"
    if config.stream.order != "default":
        yield f"order: {config.stream.order}"
    yield spell_augment(config.augment)
    if config.augment.rand_augment:
        yield "rand_augment"
    if config.memory is None:
        return
    yield f"budget: {config.memory.budget}"
    changes = config.memory.codec.model_dump(exclude_defaults=True).items()
    codec = [config.memory.codec.name, *(f"{key}={change}" for key, change in changes)]
    if codec != ["raw"] or config.method.name == "bimae":
        yield f"codec: {' '.join(codec)}"
    if config.memory.selection != "herding":
        yield f"selection: {config.memory.selection}"
    if not config.memory.count_overhead:
        yield "pixels alone count"


def spell_augment(augment: AugmentConfig) -> str:
    is_padded = augment.train in ("crop", "crop-flip")
    return f"augment: {augment.train}" + (f", padding {augment.padding}" if is_padded else "")
