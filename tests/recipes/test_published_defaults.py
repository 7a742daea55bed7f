"""Methods have the defaults that papers, releases and toolboxes give.

A second copy of the settings that recipes leave as they are; what recipes set is in
`test_published_settings.py`. "Chosen" marks what no source gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from remnant.methods import METHODS, MethodConfig
from remnant.methods.backbones import BackboneConfig
from remnant.methods.dytox import MixupConfig
from remnant.phases import OptimizerConfig, Schedule
from tests.support.spelled_schedules import DER_TUNING, spell_optimizer, spell_schedule

RESNET32 = "backbone: resnet32 pad"
UCIR_RESNET32 = "backbone: resnet32 project, no last ReLU"
ICARL_RESNET32 = "backbone: resnet32 pad, no last ReLU"
RESNET18 = "backbone: resnet18 pad"
# PyCIL: softened by 2, as a cross-entropy, a mean over images.
PYCIL_DISTILLATION = [
    *("distillation.form: cross-entropy", "distillation.mean_over: images"),
    *("distillation.temperature: 2.0", "distillation.times_temperature_squared: False"),
]
NEAREST_MEAN = ["mirror_exemplars: True", "prediction: scores"]

DEFAULTS: dict[str, list[str]] = {
    "finetune": [RESNET32, "softmax_over: seen"],
    "joint": [RESNET32],
    "er": [RESNET32, "label_smoothing: 0.0", "logit_adjustment: 0.0"],
    # PyCIL: models/lwf.py
    "lwf": [
        *(RESNET32, *PYCIL_DISTILLATION, "distillation.weight: 3.0"),
        *("loss: softmax", "softmax_over: new", "warmup: None"),
    ],
    # PyCIL: models/ewc.py
    "ewc": [
        *(RESNET32, "softmax_over: new", "penalty_weight: 1000.0", "fisher.max_entry: 0.0001"),
        *("fisher.labels: true", "fisher.batch_size: 128", "fisher.covers: all"),
        *("fisher.has_batch_statistics: True", "fisher.merge: mean", "fisher.old_share: None"),
    ],
    # PyCIL: models/wa.py
    "wa": [
        *(RESNET32, *PYCIL_DISTILLATION, "distillation.weight: 1.0", "align_weights: True"),
        *("has_positive_rows: False", "classify_weight: None"),
    ],
    # PyCIL: models/gem.py; the margin of the release of GEM and of mammoth
    "gem": [RESNET32, "softmax_over: task", "margin: 0.5"],
    # mammoth: models/agem.py, models/derpp.py
    "a-gem": [RESNET32, "softmax_over: seen"],
    "derpp": [RESNET32, "score_weight: 0.1", "label_weight: 0.5"],
    # Released: https://github.com/srebuffi/iCaRL; `distillation` is PyCIL's variant
    "icarl": [
        *(ICARL_RESNET32, *PYCIL_DISTILLATION, "distillation.weight: 1.0", "loss: sigmoid"),
        *("average_over: seen", "prediction: nearest-mean", "mirror_exemplars: True"),
    ],
    # Released: https://github.com/hshustc/CVPR19_Incremental_Learning
    "ucir": [
        *(UCIR_RESNET32, "less_forget_weight: 5.0", "rank_weight: 1.0", "margin: 0.5"),
        *("num_rivals: 2", "balanced_tuning: None", *NEAREST_MEAN),
    ],
    # FACIL; released: https://github.com/wuyuebupt/LargeScaleIncrementalLearning
    "bic": [
        *(RESNET32, *PYCIL_DISTILLATION, "distillation.weight: 1.0", "validation_ratio: 0.1"),
        "correction: 200 epochs of 128, sgd 0.1, decay 0, x0.1 at 60 120 160 180",
        "shift_penalty: 0.1",
    ],
    # Released: https://github.com/arthurdouillard/incremental_learning.pytorch
    "podnet": [
        *(ICARL_RESNET32, "num_proxies: 10", "margin: 0.6", "nca: released"),
        *("spatial_weight: 3.0", "flat_weight: 1.0", *NEAREST_MEAN),
        "balanced_tuning: 20 epochs of 128, sgd 0.05, decay 0.0005, constant, clamp 5",
    ],
    # Released: https://github.com/Rhyssiyan/DER-ClassIL.pytorch
    "expandable": [
        *(RESNET18, "start_from: previous", "auxiliary_weight: 1.0", DER_TUNING),
        "tuning_temperature: 5.0",
    ],
    # The masks were not released. HAT: https://github.com/joansj/hat; first logits chosen
    "expandable-pruned": [
        *(RESNET18, "start_from: previous", "auxiliary_weight: 1.0", DER_TUNING),
        *("tuning_temperature: 5.0", "sparsity_weight: 0.75", "max_scale: 400.0"),
        "largest_start: 1.0",
    ],
    # As DER; of its own nothing was released. Chosen: what is cut, and how it is compressed
    "simple-expandable": [
        *(RESNET18, "start_from: previous", DER_TUNING, "tuning_temperature: 5.0"),
        *(*PYCIL_DISTILLATION, "distillation.weight: 1.0", "cut_ratio: 0.6"),
        "compression: 30 epochs of 128, sgd 0.01, decay 0.0005, cosine",
        "regression_weight: 1.0",
    ],
    # Released: https://github.com/bwnzheng/TagFex_CVPR2025,
    # configs/all_in_one/cifar100_10-10_tagfex_resnet18.yaml
    "tagfex": [
        *(RESNET18, "previous_share: 0.95", "contrast_weight: 1.0", "contrast_temperature: 0.2"),
        *("hold_weight: 2.0", "auxiliary_weight: 2.0", "merge_weight: 1.0", "num_heads: 8"),
        *("transfer_weight: 1.0", "transfer_temperature: 2.0"),
        *("projector_hidden_width: 2048", "projector_width: 1024"),
    ],
    # Released: https://github.com/arthurdouillard/dytox; a mean over entries, times T^2
    "dytox": [
        *("network.patch_size: 4", "network.width: 384", "network.depth: 5"),
        *("network.head_width: 32", "network.mlp_width: 1536", "network.drop_path_ratio: 0.1"),
        *("network.initial_deviation: 0.02", "diversity_weight: 0.1", "mixup: None"),
        *("distillation.weight: 1.0", "distillation.temperature: 1.0"),
        *("distillation.form: divergence", "distillation.mean_over: entries"),
        "distillation.times_temperature_squared: True",
        "balanced_tuning: 20 epochs of 256, adamw 2.5e-05, decay 1e-06 of weights, constant, "
        "3 views",
        *("masked_input: mean", "presentation: published"),
    ],
    # Released: https://github.com/xialeiliu/GFR-IL
    "gfr": [
        *(RESNET18, "feature_weight: 1.0", "num_noise: 200", "num_hidden: 512"),
        *("critic_steps: 5", "penalty_weight: 10.0", "hold_weight: 0.001"),
        "generation: 501 epochs of 128, adam 0.0001 betas 0.5 0.999, decay 0, x0.3 at 200 400",
    ],
    # Released: https://github.com/yaoyao-liu/class-incremental-learning. Chosen: how pixels move
    "mnemonics": [
        *(UCIR_RESNET32, "distillation.weight: 0.25", "distillation.temperature: 2.0"),
        *("distillation.form: divergence", "distillation.times_temperature_squared: True"),
        *("distillation.mean_over: images", "adjusts_old: True", "inner_lr: 0.1"),
        *("inner_steps: 1", "inner_images: 64", *NEAREST_MEAN),
        "pixels: 1 epochs of 128, adam 0.01, decay 0, cosine",
    ],
    # Released: https://github.com/sntc129/MECIL
    "mecil": [ICARL_RESNET32, "average_over: seen", "adaptation: None"],
    # Released: https://github.com/lywang3081/MRDC; the threshold is recalled, the jitter chosen
    "mrdc": [
        *(UCIR_RESNET32, "base: ucir", "qualities: (10, 25, 50, 75, 90)", "threshold: 0.5"),
        "jitter: 0.001",
    ],
    # Released: https://github.com/xfflzl/CIM-CIL, cim-imagenet100.json. Chosen: the base, and how
    # often masks move
    "cim": [
        *(RESNET32, "base: wa", "threshold: 0.6", "refresh_every_epochs: 40"),
        *("compressed_step: 0.1", "mask_every: 12", "mask_images: 16", "inner_lr: 0.01"),
        "mask_optimizer: adam 0.01, decay 0.0005, cosine, length 1",
        *("mask_classify_weight: 0.2", "mask_size_weight: 0.1"),
    ],
    # Released: https://github.com/Impression2805/CVPR21_PASS
    "pass": [RESNET18, "temperature: 0.1", "prototype_weight: 10.0", "feature_weight: 10.0"],
}
# Bilateral MAE has its equations tested; the others are on frozen encoders, with settings of ours.
_OTHERS = {"bimae", "ncm", "ranpac", "tuned"}


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_method_has_the_defaults_of_its_sources(name: str) -> None:
    fields = METHODS[name].Config.model_fields
    found = [
        line
        for key, field in fields.items()
        if key not in MethodConfig.model_fields
        for line in spelled_default(key, field.default)
    ]
    assert sorted(found) == sorted(DEFAULTS[name])


def test_published_methods_show_new_images_as_they_are() -> None:
    views = {name: METHODS[name].Config.model_fields["codec_view_ratio"] for name in METHODS}
    assert {field.default for field in views.values()} == {0.0}


def test_every_method_stands_in_the_table() -> None:
    assert set(METHODS) == set(DEFAULTS) | _OTHERS


def test_mixup_is_that_of_dytox_plus() -> None:
    """Released: https://github.com/arthurdouillard/dytox."""
    assert MixupConfig() == MixupConfig(alpha=0.8, label_smoothing=0.1)


def spelled_default(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, BackboneConfig):
        last = "" if value.has_last_relu else ", no last ReLU"
        assert value.stem == "small", "the other stems are for larger images"
        yield f"{key}: {value.name} {value.shortcut}{last}"
    elif isinstance(value, MethodConfig):
        changes = value.model_dump(exclude={"name", "first"}, exclude_defaults=True)
        yield " ".join([f"{key}: {value.name}", *(f"{k}={v}" for k, v in changes.items())])
    elif isinstance(value, Schedule):
        yield f"{key}: {spell_schedule(value)}"
    elif isinstance(value, OptimizerConfig):
        yield f"{key}: {spell_optimizer(value)}"
    elif isinstance(value, BaseModel):
        for name, part in value:
            yield from spelled_default(f"{key}.{name}", part)
    else:
        yield f"{key}: {value}"
