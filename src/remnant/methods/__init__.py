"""The methods. To add one: a file beside this one and a name in the list below."""

from __future__ import annotations

from remnant.methods.a_gem import AGEM
from remnant.methods.abilities import Decides, Draws, Recognises, TellsRows, replayed_memory
from remnant.methods.base import (
    METHODS,
    Method,
    MethodConfig,
    MethodContext,
    build_method,
    kept_bytes,
)
from remnant.methods.bic import BiC
from remnant.methods.bimae import BiMAE
from remnant.methods.cim import CIM
from remnant.methods.dark_replay import DarkReplay
from remnant.methods.dytox import DyTox
from remnant.methods.er import ER
from remnant.methods.ewc import EWC
from remnant.methods.expandable import Expandable
from remnant.methods.expandable_pruned import ExpandablePruned
from remnant.methods.finetune import Finetune
from remnant.methods.gem import GEM
from remnant.methods.gfr import GFR
from remnant.methods.icarl import ICaRL
from remnant.methods.joint import Joint
from remnant.methods.lwf import LwF
from remnant.methods.mecil import MECIL
from remnant.methods.mnemonics import Mnemonics
from remnant.methods.mrdc import MRDC
from remnant.methods.ncm import NCM
from remnant.methods.partial_exemplars import Completes, SeesParts
from remnant.methods.podnet import PODNet
from remnant.methods.prototype_augmentation import PASS
from remnant.methods.ranpac import RanPAC
from remnant.methods.simple_expandable import SimpleExpandable
from remnant.methods.tagfex import TagFex
from remnant.methods.tuned import Tuned
from remnant.methods.ucir import UCIR
from remnant.methods.wa import WA

for _method in (
    AGEM,
    BiC,
    BiMAE,
    CIM,
    DarkReplay,
    DyTox,
    ER,
    EWC,
    Expandable,
    ExpandablePruned,
    Finetune,
    GEM,
    GFR,
    ICaRL,
    Joint,
    LwF,
    MECIL,
    Mnemonics,
    MRDC,
    NCM,
    PASS,
    PODNet,
    RanPAC,
    SimpleExpandable,
    TagFex,
    Tuned,
    UCIR,
    WA,
):
    METHODS.register(_method)

__all__ = [
    "METHODS",
    "Completes",
    "Decides",
    "Draws",
    "Method",
    "MethodConfig",
    "MethodContext",
    "Recognises",
    "SeesParts",
    "TellsRows",
    "build_method",
    "kept_bytes",
    "replayed_memory",
]
