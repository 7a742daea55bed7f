"""For every method, settings with which it learns a few digits in about a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from remnant.memory import MemoryConfig
from remnant.methods import METHODS, MethodConfig

Tiny = tuple[MethodConfig, MemoryConfig | None, tuple[int, ...]]  # method, memory, task sizes
TWO_TASKS = (2, 2)


def _schedule(epochs: int, batch_size: int = 16, **optimizer: Any) -> dict[str, Any]:
    return {"epochs": epochs, "batch_size": batch_size, "optimizer": optimizer}


def _residual(name: str, sizes: tuple[int, ...] = TWO_TASKS, **more: Any) -> Tiny:
    method = METHODS[name].Config.model_validate(
        {
            "name": name,
            "backbone": {"name": "resnet8"},
            "first": _schedule(12, 8, name="sgd", lr=0.05, schedule="cosine"),
            **more,
        }
    )
    memory = MemoryConfig(budget="6images/class") if METHODS[name].uses_memory else None
    return method, memory, sizes


def _bimae() -> Tiny:
    network = {"patch_size": 4, "width": 32, "depth": 2, "head_width": 8}
    method = METHODS["bimae"].Config.model_validate(
        {
            "name": "bimae",
            "network": {**network, "mlp_width": 64, "fusion_mlp_width": 64},
            "classify_weight": 1.0,
            "first": _schedule(12, name="adam", lr=3e-3),
            # Everything that has state or a phase of its own is on.
            "distill_weight": 0.1,
            "align_weights": True,
            "refresh_every_epochs": 6,
            "exact_view_ratio": 0.5,
            "balanced_tuning": _schedule(2, name="adam", lr=1e-3),
        }
    )
    codec = {"name": "patches", "patch_size": 4, "mask_ratio": 0.75}
    memory = MemoryConfig.model_validate({"budget": "3images/class", "codec": codec})
    return method, memory, TWO_TASKS


TINY: dict[str, Callable[[], Tiny]] = {
    "bimae": _bimae,
    "er": lambda: _residual("er"),
    "finetune": lambda: _residual("finetune"),
    "joint": lambda: _residual("joint", (4,)),
}
