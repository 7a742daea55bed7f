"""For every method, settings with which it learns the tiny stream in about a second.

Everything that has state or a phase of its own is on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from remnant.config import RunConfig
from remnant.data import DataConfig
from remnant.data.stream import StreamConfig
from remnant.encoders import lite0
from remnant.memory import MemoryConfig
from remnant.methods import METHODS
from remnant.testing import Trial, small_config
from remnant.training.processes import TrainingConfig
from remnant.views.augment import AugmentConfig
from tests.support.worlds import SEED_OFFSET

SGD: dict[str, Any] = {"name": "sgd", "lr": 0.05, "schedule": "cosine"}
SIGNED = {"name": "resnet8", "has_last_relu": False}
SMALL_ENCODER = lite0.CONFIG.model_dump() | {"image_size": 64}
BOXED = MemoryConfig.parse({"budget": "3images/class", "codec": "boxed"})
JPEG = MemoryConfig.parse({"budget": "2images/class", "codec": "jpeg"})
HALVED = MemoryConfig.parse({"budget": "2images/class", "codec": "downscaled"})
QUICK_SGD = SGD | {"lr": 0.2}  # for convolutions, whose 24 steps are few


def schedule(epochs: int, batch_size: int = 8, **optimizer: Any) -> dict[str, Any]:
    return {"epochs": epochs, "batch_size": batch_size, "optimizer": optimizer}


TUNED: dict[str, Any] = {"balanced_tuning": schedule(3, name="sgd", lr=0.01)}


def _trial(
    name: str,
    memory: MemoryConfig | None = None,
    task_sizes: tuple[int, ...] = (2, 2),
    **settings: Any,
) -> Trial:
    method = METHODS[name]
    trial = Trial.of(method, small_config(method, **settings), memory, task_sizes)
    return replace(trial, seed=trial.seed + SEED_OFFSET)


def _expandable(name: str, **settings: Any) -> Trial:
    """Heads restart after two epochs; the classifier is tuned for a few."""
    tuning = {"balanced_tuning": schedule(3, name="sgd", lr=0.2), "tuning_temperature": 1}
    return _trial(name, first=schedule(6, **SGD, warmup_epochs=2), **tuning, **settings)


def _patches(mask_ratio: float) -> MemoryConfig:
    codec = {"name": "patches", "patch_size": 4, "mask_ratio": mask_ratio}
    return MemoryConfig.parse({"budget": "3images/class", "codec": codec})


def _bimae() -> Trial:
    network = {"patch_size": 4, "width": 32, "depth": 2, "head_width": 8}
    return _trial(
        "bimae",
        _patches(0.75),
        network={**network, "mlp_width": 64, "fusion_mlp_width": 64},
        classify_weight=1.0,
        first=schedule(6, name="adam", lr=3e-3),
        distill_weight=0.1,
        align_weights=True,
        refresh_every_epochs=3,
        exact_view_ratio=0.5,
        presentation="symmetric",
        balanced_tuning=schedule(2, name="adam", lr=1e-3),
    )


def _full_views() -> Trial:
    """Convolutions with a masked side branch, mean weights, and new images coded like old ones."""
    codec = {"name": "transform", "quality": 50}
    network = {"encoder": "conv", "patch_size": 4, "channels": [8, 16], "stem_channels": 6}
    return _trial(
        "bimae",
        MemoryConfig.parse({"budget": "3images/class", "codec": codec}),
        network=network,
        has_detail_branch=False,
        classify_weight=1.0,
        view="full",
        side_ratio=0.5,
        first=schedule(6, **QUICK_SGD, nesterov=True),
        distill_weight=0.1,
        average_decay=0.9,
        codec_view_ratio=0.5,
        label_smoothing=0.1,
        logit_adjustment=0.5,
    )


def _windows() -> Trial:
    """Convolutions that see windows of images first."""
    network = {"encoder": "conv", "patch_size": 4, "channels": [8, 16], "stem_channels": 6}
    return _trial(
        "bimae",
        MemoryConfig.parse({"budget": "3images/class", "codec": {"name": "transform"}}),
        network=network,
        has_detail_branch=False,
        reconstruction="off",
        classify_weight=1.0,
        view="window",
        mask_ratio=0.4375,
        unmasked_ratio=0.4,
        first=schedule(16, name="adam", lr=3e-3),
        codec_view_ratio=0.5,
    )


def _stored_units() -> Trial:
    """The same network, with a detail branch, on exemplars of which a quarter is kept."""
    network = {"encoder": "conv", "patch_size": 4, "channels": [8, 16], "stem_channels": 6}
    return _trial(
        "bimae",
        _patches(0.75),
        network=network,
        classify_weight=1.0,
        view="full",
        side_ratio=0.5,
        decoded_ratio=0.5,
        exact_view_ratio=0.5,
        first=schedule(6, **QUICK_SGD),
    )


def _dytox() -> Trial:
    """With masked exemplars, by their stored patches alone."""
    network = {"patch_size": 4, "width": 32, "depth": 1, "head_width": 8, "mlp_width": 64}
    return _trial(
        "dytox",
        _patches(0.5),
        network={**network, "initial_deviation": 0.15},  # narrow networks start slowly
        first=schedule(6, name="adamw", lr=4e-3),
        masked_input="tokens",
        presentation="symmetric",
        balanced_tuning=schedule(2, name="adamw", lr=1e-3),
    )


def _gem() -> Trial:
    """With a third task, which two earlier ones constrain."""
    half = {"sampling": "share", "new_share": (0.5, 0.5)}
    first = schedule(12, 16, **SGD) | half
    return _trial("gem", task_sizes=(2, 2, 2), first=first, softmax_over="seen", margin=0)


TRIALS: dict[str, Callable[[], Trial]] = {
    "a-gem": lambda: _trial("a-gem"),
    "bic": lambda: _trial("bic", correction=schedule(6, name="sgd", lr=0.1)),
    "bimae": _bimae,
    "derpp": lambda: _trial("derpp", first=schedule(12, **SGD)),
    "cim": lambda: _trial(
        "cim",
        BOXED,
        first=schedule(6, **SGD),
        refresh_every_epochs=3,
        mask_every=4,
        mask_images=4,
    ),
    "dytox": _dytox,
    "er": lambda: _trial("er"),
    "ewc": lambda: _trial("ewc", softmax_over="seen", fisher={"batch_size": 4}),
    "expandable": lambda: _expandable("expandable"),
    # Half of the first logits are below 0.05, so that some channels are cut in so few steps.
    "expandable-pruned": lambda: _expandable("expandable-pruned", max_scale=20, largest_start=0.1),
    "finetune": lambda: _trial("finetune"),
    "gem": _gem,
    "icarl": lambda: _trial("icarl", backbone=SIGNED, first=schedule(6, **SGD | {"lr": 0.2})),
    "joint": lambda: _trial("joint", task_sizes=(4,), first=schedule(12, **SGD)),
    "lwf": lambda: _trial("lwf", softmax_over="seen", warmup=schedule(2, name="sgd", lr=0.05)),
    "tuned": lambda: _trial(
        "tuned", encoder=SMALL_ENCODER, first=schedule(4, name="adam", lr=1e-3)
    ),
    "ncm": lambda: _trial("ncm", encoder=SMALL_ENCODER),
    "pass": lambda: _trial(
        "pass", first=schedule(24, name="adam", lr=3e-3), prototype_weight=1, feature_weight=1
    ),
    "gfr": lambda: _trial(
        "gfr",
        first=schedule(10, name="adam", lr=3e-3),
        generation=schedule(6, name="adam", lr=1e-3, betas=(0.5, 0.999)),
        num_noise=8,
        num_hidden=32,
        critic_steps=2,
    ),
    "mecil": lambda: _trial(
        "mecil",
        HALVED,
        backbone=SIGNED,
        first=schedule(6, **QUICK_SGD),
        adaptation=schedule(3, **QUICK_SGD),
    ),
    "mnemonics": lambda: _trial(
        "mnemonics", backbone=SIGNED, pixels=schedule(3, name="adam", lr=0.02), inner_images=5
    ),
    "mrdc": lambda: _trial(
        "mrdc", JPEG, backbone=SIGNED, first=schedule(9, **SGD), base={"name": "ucir"} | TUNED
    ),
    "podnet": lambda: _trial(
        "podnet",
        backbone=SIGNED,
        num_proxies=3,
        balanced_tuning=schedule(3, name="sgd", lr=0.05, clip_value=5),
    ),
    "ranpac": lambda: _trial("ranpac", encoder=SMALL_ENCODER, num_projected=200),
    "simple-expandable": lambda: _expandable(
        "simple-expandable", compression=schedule(2, name="sgd", lr=0.01)
    ),
    "tagfex": lambda: _trial(
        "tagfex",
        first=schedule(6, 16, **SGD) | {"views_per_image": 2},
        projector_hidden_width=32,
        projector_width=16,
    ),
    "ucir": lambda: _trial("ucir", backbone=SIGNED, **TUNED),
    "wa": lambda: _trial("wa", has_positive_rows=True),
}

# Methods with other networks and options than in TRIALS.
VARIANTS: dict[str, Callable[[], Trial]] = {
    "bimae, full views": _full_views,
    "bimae, stored units": _stored_units,
    "bimae, windows": _windows,
    "cim over icarl": lambda: _trial(
        "cim", BOXED, base="icarl", backbone=SIGNED, first=schedule(6, **QUICK_SGD), mask_every=6
    ),
    "er, convolutions": lambda: _trial(
        "er",
        backbone={"name": "conv", "channels": [8, 16]},
        first=schedule(12, **QUICK_SGD),
        codec_view_ratio=0.5,
    ),
    # Coded views: of a part of the new images, of a subset that is tuned on, of a base.
    "bic, coded views": lambda: _trial(
        "bic", JPEG, correction=schedule(6, name="sgd", lr=0.1), codec_view_ratio=0.5
    ),
    "expandable, coded views": lambda: replace(
        _expandable("expandable", codec_view_ratio=0.5), memory=JPEG
    ),
    "mrdc over icarl": lambda: _trial(
        "mrdc",
        JPEG,
        backbone=SIGNED,
        base="icarl",
        first=schedule(6, **QUICK_SGD),
        codec_view_ratio=0.5,
    ),
    "podnet, convolutions": lambda: _trial(
        "podnet",
        backbone={"name": "conv", "channels": [8, 16], "has_last_relu": False},
        num_proxies=3,
        balanced_tuning=schedule(3, name="sgd", lr=0.05, clip_value=5),
    ),
}


def run_config(name: str) -> RunConfig:
    """A trial as a run on 16 images of each of the first digits."""
    trial = (TRIALS | VARIANTS)[name]()
    return RunConfig(
        seed=trial.seed,
        data=DataConfig(dataset="digits", images_per_class=16, image_size=16),
        stream=StreamConfig(num_classes=sum(trial.task_sizes), task_sizes=trial.task_sizes),
        augment=AugmentConfig(train="crop-flip", padding=1),
        memory=trial.memory,
        method=trial.config,
        training=TrainingConfig(accelerator="cpu", threads=1, checkpoint_every_steps=3),
    )
