"""Presets of Bilateral MAE, of its components and of the paper's ablations.

[bimae] Zhai et al., ICCV 2023.
"""

from dataclasses import replace
from typing import Any

from remnant.memory import CodecConfig, PatchesConfig, RawConfig, TransformConfig
from remnant.memory.codecs.webp import WebpConfig
from remnant.methods.bimae import BilateralConfig, BiMAEConfig
from remnant.methods.bimae_best import (
    BEST_OPTIMIZER,
    BEST_OPTIONS,
    BEST_PATCH_OPTIMIZER,
    BEST_PATCH_OPTIONS,
    BEST_WINDOWS,
)
from remnant.phases import OptimizerConfig, Schedule
from remnant.recipes.presets import Preset, Published, Setup
from remnant.recipes.protocols import CIFAR100, LITE, SMALL, USUAL, mini_schedule

_PATCHES, _RAW = PatchesConfig(), RawConfig()
_TINY = BilateralConfig(patch_size=4, width=64, head_width=16, mlp_width=256, fusion_mlp_width=256)
_SMALL = BilateralConfig(patch_size=4, width=128, mlp_width=512, fusion_mlp_width=512)
# What [bimae] was trained with.
_PAPER_OPTIMIZER = OptimizerConfig(name="adam", lr=1e-4, schedule="cosine")
_PAPER = Schedule(epochs=400, batch_size=1024, optimizer=_PAPER_OPTIMIZER)
# Chosen on the same holdout, where it helped the `exact` row; the others were not tried.
_COMPONENT_OPTIMIZER = BEST_PATCH_OPTIMIZER.model_copy(update={"lr": 2e-3})
_COMPONENT_MINI = mini_schedule(_COMPONENT_OPTIMIZER, sampling="balanced")
_COMPONENT_DIGITS = Schedule(
    epochs=20, batch_size=32, steps_from="new", sampling="balanced", optimizer=BEST_PATCH_OPTIMIZER
)
_NETWORKS = (_TINY, _SMALL, BilateralConfig())
# A wide and shallow network of convolutions, and a small one for the digits.
_CONV = BilateralConfig(encoder="conv", patch_size=8)
_CONV_DIGITS = BilateralConfig(
    encoder="conv", patch_size=8, channels=(24, 64, 96), stem_channels=12
)
_CONV_WIDE = BilateralConfig(
    encoder="conv", patch_size=8, channels=(96, 320, 384), stem_channels=48
)
_CONV_224 = BilateralConfig(
    encoder="conv", patch_size=32, channels=(48, 96, 192, 320, 448), stem_channels=24
)
_LONG = Schedule(epochs=100, batch_size=128, optimizer=BEST_OPTIMIZER)
_FEWEST_BYTES = TransformConfig(quality="auto")
# Chosen: at 224 px `transform` decodes five times more slowly, and a GPU would wait for exemplars.
_FASTEST = WebpConfig(quality="auto")


def best(network: BilateralConfig, schedule: Schedule, codec: CodecConfig = _FEWEST_BYTES) -> Setup:
    """The options that did best on held-out images; docs/methods/bimae.md has all that was tried.

    Whole images, coded as coarsely as the budget asks for, on a network of convolutions that sees
    windows of them first.
    """
    return _on_convolutions(network, schedule, codec, BEST_OPTIONS | BEST_WINDOWS)


def _on_convolutions(
    network: BilateralConfig, schedule: Schedule, codec: CodecConfig, options: dict[str, Any]
) -> Setup:
    balanced = schedule.model_copy(update={"sampling": "balanced", "steps_from": "new"})
    method = BiMAEConfig(network=network, first=balanced, **options)
    return Setup(method, about="best options", codec=codec)


def _best_patches(network: BilateralConfig, schedule: Schedule) -> Setup:
    """The options that did best with the paper's network and its form of memory."""
    method = BiMAEConfig(
        network=network,
        first=schedule.model_copy(update={"sampling": "balanced", "steps_from": "new"}),
        **BEST_PATCH_OPTIONS,
    )
    return Setup(method, about="best options for patches", codec=_PATCHES)


def _on_digits(epochs: int) -> Setup:
    schedule = Schedule(epochs=epochs, batch_size=32, optimizer=BEST_OPTIMIZER)
    # The rule behind "auto" is made for photographs; digits are grey and take half of the bytes.
    return _on_convolutions(_CONV_DIGITS, schedule, TransformConfig(quality=50), BEST_OPTIONS)


def _printed(
    about: str, codec: CodecConfig = _PATCHES, budget: str = "20images/class", **options: Any
) -> Setup:
    """[bimae] stores patches in the bytes of 20 images per class and counts pixels alone."""
    method = BiMAEConfig(first=_PAPER, **options)
    return Setup(method, "the paper", about, budget=budget, codec=codec, count_overhead=False)


def _variant(
    name: str,
    about: str,
    *rows: Published,
    codec: CodecConfig = _PATCHES,
    budgets: tuple[str | None, str] = (None, "20images/class"),
    networks: tuple[BilateralConfig, ...] = _NETWORKS,
    **options: Any,
) -> Preset:
    """The paper's method with other `options`; those with a printed row also at full scale.

    `budgets` of the mini protocol and of full scale; `networks` for digits, mini and full scale.
    """
    tiny, small, full = networks
    options_of_short: dict[str, Any] = {"classify_weight": 1.0} | options
    digits = BiMAEConfig(network=tiny, first=_COMPONENT_DIGITS, **options_of_short)
    mini = BiMAEConfig(network=small, first=_COMPONENT_MINI, **options_of_short)
    return Preset(
        f"bimae-{name}",
        (*SMALL, *LITE, *dict.fromkeys(row.protocol for row in rows)),
        {
            "digits": Setup(digits, about=about, codec=codec),
            "mini": Setup(mini, about=about, codec=codec, budget=budgets[0]),
            "cifar100": _printed(about, codec, budgets[1], network=full, **options),
        },
        rows,
    )


def _masked(ratio: float, *rows: Published) -> Preset:
    """Training and memory with another mask ratio, in the same bytes."""
    return _variant(
        f"mask{ratio:.0%}"[:-1],
        f"mask ratio {ratio:.2f}",
        *rows,
        codec=PatchesConfig(mask_ratio=ratio),
        mask_ratio=ratio,
        coarse_mask_ratio=ratio,
    )


def _fine(ratio: float) -> Preset:
    """The sweep of r2, a figure without numbers."""
    name = f"fine{ratio:.0%}"[:-1]
    nothing = Published("cifar100-10", None, None, None, "[bimae] figure of r2")
    return _variant(name, f"r2 {ratio:.2f}", nothing, fine_mask_ratio=ratio)


def _row(avg: float, last: float, table: int) -> Published:
    return Published("cifar100-10", avg, last, None, f"[bimae] table {table}")


# Less than one raw image of 32 px in colour.
DEMO = Preset("demo", (), {"digits": replace(_on_digits(20), budget="2KiB/class")})
PRESETS = (
    Preset(
        name="bimae",
        protocols=(*USUAL, "imagenet-full"),
        setups={
            "digits": _on_digits(20),
            "mini": best(_CONV, mini_schedule(BEST_OPTIMIZER)),
            "cifar100": _printed(""),
            "imagenet": _printed(
                "", PatchesConfig(patch_size=16), network=BilateralConfig(patch_size=16)
            ),
        },
        published=(
            Published("cifar100-10", 79.12, 68.40, 12.17, "[bimae] tables 1, 7", "", 12.89),
            Published("cifar100-20", 78.76, 65.22, 14.39, "[bimae] table 1"),
            Published("cifar100-50", 76.95, 63.12, 18.34, "[bimae] table 1"),
            Published("imagenet-subset-10", 79.54, 70.29, 12.04, "[bimae] table 2"),
            Published("imagenet-subset-20", 75.20, 64.40, 14.89, "[bimae] table 2"),
            Published("imagenet-subset-50", 74.42, 62.87, 17.22, "[bimae] table 2"),
            Published("imagenet-full", 74.76, 66.15, None, "[bimae] table 3"),
            Published("imagenet-full", 91.43, 87.13, None, "[bimae] table 3", top=5),
        ),
    ),
    # Chosen without a run: four times the arithmetic of the mini network, in more epochs.
    Preset(
        name="best",
        protocols=(*CIFAR100, "imagenet-subset-10"),
        setups={
            "cifar100": replace(best(_CONV_WIDE, _LONG), budget="60KiB/class"),
            "imagenet": replace(best(_CONV_224, _LONG, _FASTEST), budget="20images/class"),
        },
    ),
    Preset(
        name="bimae-patches",
        protocols=(*SMALL, *LITE),
        setups={
            "digits": _best_patches(
                _TINY, Schedule(epochs=20, batch_size=32, optimizer=BEST_PATCH_OPTIMIZER)
            ),
            "mini": _best_patches(_SMALL, mini_schedule(BEST_PATCH_OPTIMIZER)),
        },
    ),
    _variant(
        "baseline",
        "20 whole images, no reconstruction",
        _row(73.40, 62.31, 4),
        codec=_RAW,
        has_detail_branch=False,
        reconstruction="off",
    ),
    _variant(
        "replay",
        "completions, drawn by the decoder alone",
        _row(75.88, 64.35, 4),
        has_detail_branch=False,
        reconstruction="decoder",
    ),
    _variant(
        "reconstruction",
        "no detail branch",
        _row(77.48, 66.54, 4),
        has_detail_branch=False,
    ),
    _variant("full", "all components"),
    _variant(
        "exact",
        "half of the views of exemplars exact",
        exact_view_ratio=0.5,
        presentation="symmetric",
    ),
    _masked(0.60, _row(77.50, 67.37, 5)),
    _masked(0.90, _row(77.12, 67.02, 5)),
    # "equivalent in storage size" can be read in two ways: as many bytes, or as many images.
    _variant("real-bytes", "20 real images", _row(79.57, 68.87, 5), codec=_RAW),
    _variant(
        "real-count",
        "80 real images",
        _row(79.57, 68.87, 5),
        codec=_RAW,
        budgets=("240KiB/class", "80images/class"),
    ),
    _variant("spatial", "detail loss on pixels", _row(77.45, 65.93, 6), detail_domain="spatial"),
    _variant(
        "mlp768",
        "half of the MLP's width",
        Published("cifar100-10", 78.36, 67.52, 12.90, "[bimae] table 7", "", 9.35),
        networks=tuple(
            network.model_copy(update={"mlp_width": network.mlp_width // 2})
            for network in _NETWORKS
        ),
    ),
    *(_fine(ratio) for ratio in (0.10, 0.20, 0.30, 0.50, 0.60)),
)
