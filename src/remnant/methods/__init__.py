"""The methods, by name. To add one: a file beside this one and a line in the table."""

from __future__ import annotations

from remnant.methods.base import Method, MethodConfig, World
from remnant.methods.bic import BiC
from remnant.methods.bimae import BiMAE
from remnant.methods.dytox import DyTox
from remnant.methods.er import ER
from remnant.methods.ewc import EWC
from remnant.methods.expandable import Expandable
from remnant.methods.expandable_pruned import ExpandablePruned
from remnant.methods.finetune import Finetune
from remnant.methods.icarl import ICaRL
from remnant.methods.joint import Joint
from remnant.methods.lwf import LwF
from remnant.methods.podnet import PODNet
from remnant.methods.simple_expandable import SimpleExpandable
from remnant.methods.ucir import UCIR
from remnant.methods.wa import WA

METHODS: dict[str, type[Method]] = {
    "bic": BiC,
    "bimae": BiMAE,
    "dytox": DyTox,
    "er": ER,
    "ewc": EWC,
    "expandable": Expandable,
    "expandable-pruned": ExpandablePruned,
    "finetune": Finetune,
    "icarl": ICaRL,
    "joint": Joint,
    "lwf": LwF,
    "podnet": PODNet,
    "simple-expandable": SimpleExpandable,
    "ucir": UCIR,
    "wa": WA,
}

__all__ = ["METHODS", "Method", "MethodConfig", "World"]
