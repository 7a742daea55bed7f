"""Several runs that differ in seed or class order, in one folder, with one report over all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from remnant.config import RunConfig, override, parse_config
from remnant.contracts import InputError
from remnant.experiment import is_finished
from remnant.files import write_json
from remnant.reports import write_comparison

_PLAN = "sweep.json"  # written first, so that a stop loses no run that had not begun

RunOne = Callable[[RunConfig, Path], None]


def expand(config: RunConfig, seeds: list[str], orders: list[str]) -> dict[str, RunConfig] | None:
    """A config for each seed and order, by folder name; None if neither is given."""
    if not seeds and not orders:
        return None
    for seed in seeds:
        if not seed.isdigit():
            raise InputError(f"--seeds takes whole numbers, as in 1,2,3; got {seed!r}.")
    configs = {}
    for order in orders or [None]:
        for seed in seeds or [None]:
            names = [f"order-{order}".replace(":", "-")] if order else []
            names += [f"seed-{seed}"] if seed else []
            assignments = [f"stream.order={json.dumps(order)}"] if order else []
            assignments += [f"seed={seed}"] if seed else []
            configs["-".join(names)] = override(config, assignments)
    return configs


def run_all(configs: dict[str, RunConfig], folder: Path, run_one: RunOne) -> Path:
    """Carry out every run in a folder of its own and compare them."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"{folder} is not empty. Choose another --out, or remnant resume {folder}."
        )
    plan = {name: config.model_dump(mode="json") for name, config in configs.items()}
    write_json(folder / _PLAN, plan)
    for name, config in configs.items():
        run_one(config, folder / name)
    return write_comparison([folder], folder / "report.html")


def is_sweep(folder: Path) -> bool:
    return (folder / _PLAN).exists()


def resume_all(folder: Path, run_one: RunOne, resume_one: Callable[[Path], None]) -> Path:
    """Carry out what is left of several runs."""
    plan = json.loads((folder / _PLAN).read_text())
    waiting = [name for name in plan if not is_finished(folder / name)]
    if not waiting:
        raise InputError(f"all runs in {folder} are finished. See {folder / 'report.html'}.")
    for name in waiting:
        if (folder / name / "config.json").exists():
            resume_one(folder / name)
        else:
            run_one(parse_config(plan[name]), folder / name)
    return write_comparison([folder], folder / "report.html")
