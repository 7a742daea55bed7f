"""The methods, by name. To add one: a file beside this one and a line in the table."""

from __future__ import annotations

from remnant.methods.base import Method, MethodConfig, World
from remnant.methods.bimae import BiMAE
from remnant.methods.er import ER
from remnant.methods.finetune import Finetune
from remnant.methods.joint import Joint

METHODS: dict[str, type[Method]] = {
    "bimae": BiMAE,
    "er": ER,
    "finetune": Finetune,
    "joint": Joint,
}

__all__ = ["METHODS", "Method", "MethodConfig", "World"]
