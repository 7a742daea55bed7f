"""For every method, settings with which it learns a few colours in about a second."""

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


def _growing(name: str, **more: Any) -> Tiny:
    """Heads restart after two epochs; the classifier is tuned for a few."""
    optimizer = {"name": "sgd", "lr": 0.05, "schedule": "cosine", "warmup_epochs": 2}
    tuning = _schedule(6, 8, name="sgd", lr=0.2)
    more |= {"balanced_tuning": tuning, "tuning_temperature": 1}
    return _residual(name, first=_schedule(12, 8, **optimizer), **more)


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


def _dytox() -> Tiny:
    """With masked exemplars, by their stored patches alone."""
    network = {"patch_size": 4, "width": 32, "depth": 1, "head_width": 8, "mlp_width": 64}
    method = METHODS["dytox"].Config.model_validate(
        {
            "name": "dytox",
            "network": {**network, "initial_deviation": 0.15},  # narrow networks start slowly
            "first": _schedule(32, name="adamw", lr=4e-3),
            "masked_input": "tokens",
            "balanced_tuning": _schedule(4, name="adamw", lr=1e-3),
        }
    )
    codec = {"name": "patches", "patch_size": 4, "mask_ratio": 0.5}
    memory = MemoryConfig.model_validate({"budget": "3images/class", "codec": codec})
    return method, memory, TWO_TASKS


SIGNED = {"name": "resnet8", "has_last_relu": False}

TINY: dict[str, Callable[[], Tiny]] = {
    "bic": lambda: _residual("bic", correction=_schedule(10, 8, name="sgd", lr=0.1)),
    "bimae": _bimae,
    "dytox": _dytox,
    "er": lambda: _residual("er"),
    "ewc": lambda: _residual("ewc", softmax_over="seen", fisher={"batch_size": 4}),
    "expandable": lambda: _growing("expandable"),
    # Half of the first logits are below 0.05, so that some channels are cut in so few steps.
    "expandable-pruned": lambda: _growing("expandable-pruned", max_scale=20, largest_start=0.1),
    "finetune": lambda: _residual("finetune"),
    "icarl": lambda: _residual(
        "icarl",
        backbone=SIGNED,
        first=_schedule(12, 8, name="sgd", lr=0.2, schedule="cosine"),
        mirror_exemplars=False,  # digits have no mirror images
    ),
    "joint": lambda: _residual("joint", (4,)),
    "lwf": lambda: _residual(
        "lwf", softmax_over="seen", warmup=_schedule(2, 8, name="sgd", lr=0.05)
    ),
    "podnet": lambda: _residual(
        "podnet",
        backbone=SIGNED,
        num_proxies=3,
        balanced_tuning=_schedule(3, 8, name="sgd", lr=0.05, clip_value=5),
    ),
    "simple-expandable": lambda: _growing(
        "simple-expandable", compression=_schedule(2, 8, name="sgd", lr=0.01)
    ),
    "ucir": lambda: _residual(
        "ucir",
        backbone=SIGNED,
        balanced_tuning=_schedule(3, 8, name="sgd", lr=0.01),
        mirror_exemplars=False,
    ),
    "wa": lambda: _residual("wa", has_positive_rows=True),
}
