"""Recipes of Bilateral MAE: the demo, the mini protocol, the paper's tables.

[bimae] Zhai et al., ICCV 2023.
"""

from __future__ import annotations

from typing import Any, Literal

from remnant.config import RunConfig
from remnant.contracts import OptimizerConfig, Schedule
from remnant.memory import MemoryConfig, PatchesConfig, RawConfig
from remnant.methods.bimae import BilateralConfig, BiMAEConfig
from remnant.recipes import protocols

SMALL = BilateralConfig(patch_size=4, width=128, mlp_width=512, fusion_mlp_width=512)
PATCHES = MemoryConfig(budget=protocols.MINI_BUDGET, codec=PatchesConfig())

# What [bimae] was trained with.
_PAPER_OPTIMIZER = OptimizerConfig(name="adam", lr=1e-4, schedule="cosine")
_PAPER_SCHEDULE = Schedule(epochs=400, batch_size=1024, optimizer=_PAPER_OPTIMIZER)

# Beyond the paper, chosen on a holdout of the training images; see docs/methods/bimae.md.
BEST: dict[str, Any] = {
    "classify_weight": 1.0,
    "exact_view_ratio": 0.5,
    "distill_weight": 1.0,
}
SHORT_OPTIMIZER = OptimizerConfig(
    name="adamw", lr=1e-3, weight_decay=0.05, schedule="cosine", warmup_epochs=1
)


def digits() -> RunConfig:
    """Bilateral MAE with its best options on the embedded digits: about two minutes."""
    schedule = Schedule(
        epochs=20,
        batch_size=32,
        steps_from="new",
        sampling="balanced",
        optimizer=SHORT_OPTIMIZER,
    )
    method = BiMAEConfig(network=SMALL, first=schedule, **BEST)
    memory = MemoryConfig(budget="20images/class", codec=PatchesConfig())
    return protocols.digits("digits-bimae", method, memory)


def demo() -> RunConfig:
    """Bilateral MAE with its best options on the embedded digits, as `make demo` runs it."""
    return digits().model_copy(update={"recipe": "demo"})


MiniVariant = Literal["best", "baseline", "replay", "reconstruction", "full", "exact"]


def mini(dataset: str, variant: MiniVariant = "best") -> RunConfig:
    """The mini protocol: width 128, all rows class-balanced and masked alike.

    `best` has the best options found. The others are the paper's components one by one:
    `baseline` (20 whole images, classification alone), `replay` (completions; only the decoder
    learns to redraw), `reconstruction`, `full` (the paper's method), `exact` (the same with half
    exact views).
    """
    options: dict[MiniVariant, dict[str, Any]] = {
        "best": BEST,
        "baseline": {"has_detail_branch": False, "reconstruction": "off"},
        "replay": {"has_detail_branch": False, "reconstruction": "decoder"},
        "reconstruction": {"has_detail_branch": False},
        "full": {},
        "exact": {"exact_view_ratio": 0.5},
    }
    schedule = protocols.mini_schedule(SHORT_OPTIMIZER, sampling="balanced")
    shared = {"classify_weight": BEST["classify_weight"]}
    method = BiMAEConfig(network=SMALL, first=schedule, **(shared | options[variant]))
    codec = RawConfig() if variant == "baseline" else PatchesConfig()
    memory = MemoryConfig(budget=protocols.MINI_BUDGET, codec=codec)
    suffix = "" if variant == "best" else f"-{variant}"
    return protocols.mini(f"{dataset}-mini-bimae{suffix}", dataset, method, memory)
