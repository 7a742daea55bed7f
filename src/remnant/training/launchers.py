"""Who started the processes of a run: this program itself, torchrun, or Slurm's srun."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from remnant.errors import InputError
from remnant.files import PARTIAL

PARENT = "REMNANT_PARENT"  # environment variable: the process of ours that started this one
_TORCHRUN = "TORCHELASTIC_RUN_ID"  # environment variable, set by torchrun alone
_TOLD = "remnant/told"  # a key of the store through which the processes have met


@dataclass(frozen=True)
class Launch:
    """Processes that another program has started, of which this is one."""

    rank: int
    count: int
    count_here: int  # on this machine

    @property
    def num_nodes(self) -> int:
        return max(1, self.count // self.count_here)


def find_launch(environment: Mapping[str, str] = os.environ) -> Launch | None:
    """What torchrun or srun has started; None where this program starts its processes itself."""
    if _TORCHRUN in environment:
        names = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
        return Launch(*(int(environment[name]) for name in names))
    # Within sbatch without srun there is one process, however many tasks were asked for.
    is_step = "SLURM_STEP_ID" in environment and "SLURM_PROCID" in environment
    count = int(environment.get("SLURM_STEP_NUM_TASKS", environment.get("SLURM_NTASKS", "1")))
    if not is_step or count == 1 or environment.get("SLURM_JOB_NAME") in ("bash", "interactive"):
        return None
    num_nodes = int(environment.get("SLURM_STEP_NUM_NODES", environment.get("SLURM_NNODES", "1")))
    return Launch(int(environment["SLURM_PROCID"]), count, max(1, count // num_nodes))


def is_main_process() -> bool:
    """Whether this process has rank 0; known before the others are started."""
    launch = find_launch()
    if launch is not None:
        return launch.rank == 0
    if "RANK" in os.environ:
        return int(os.environ["RANK"]) == 0
    node = os.environ.get("NODE_RANK", os.environ.get("GROUP_RANK", "0"))
    return int(node) == 0 and int(os.environ.get("LOCAL_RANK", "0")) == 0


def have_met() -> bool:
    """Whether this process works together with others by now."""
    return torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1


def check_count(wanted: int) -> None:
    """The number of processes that were started must match the config.

    Raises:
        InputError: It does not.
    """
    launch = find_launch()
    default = int(os.environ.get("WORLD_SIZE", wanted))
    started = default if launch is None else launch.count
    if started != wanted:
        raise InputError(
            f"the launcher must start as many processes as the config says; it started {started}, "
            f"not {wanted}. Leave out --devices and --nodes to use those that it started, or give "
            "--devices (per machine) and --nodes to match."
        )


def may_tell(folder: Path) -> bool:
    """Whether this process is the one to say why the run ends: the first that asks.

    Before the processes have met, it is the first one on each machine. The process that keeps the
    store through which they met may be the one that is gone: so whoever tells also leaves a mark in
    the run folder, which all of them see and the next start removes.
    """
    if not torch.distributed.is_initialized():
        places = ("LOCAL_RANK", "SLURM_LOCALID") if find_launch() else ("LOCAL_RANK",)
        return all(int(os.environ.get(name, "0")) == 0 for name in places)
    store = torch.distributed.distributed_c10d._get_default_store()  # there is no public way
    mark = folder / f".told{PARTIAL}"
    try:
        is_first = store.add(_TOLD, 1) == 1
    except RuntimeError:  # the process that kept the store has ended
        return _is_new(mark)
    if is_first:
        _is_new(mark)
    return is_first


def _is_new(mark: Path) -> bool:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:  # no folder yet, or a full disk
        return is_main_process()
    return True
