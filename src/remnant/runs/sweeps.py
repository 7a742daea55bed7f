"""Several runs that differ in seed or class order, in one folder, with one report over all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from remnant.config import RunConfig, override
from remnant.errors import InputError
from remnant.files import remove_temporary_files, write_json
from remnant.reports import write_comparison
from remnant.runs.experiment import check_plan, is_finished
from remnant.training.processes import is_main_process

_PLAN = "sweep.json"  # written first, so that a stop loses no run that had not begun
_PAGE = "report.html"

RunOne = Callable[[RunConfig, Path], None]


def expand(config: RunConfig, seeds: list[str], orders: list[str]) -> dict[str, RunConfig] | None:
    """A config for each seed and order, by folder name; None if neither is given."""
    if not seeds and not orders:
        return None
    for seed in seeds:
        if not (seed.isascii() and seed.isdigit()):
            raise InputError(f"--seeds takes whole numbers, as in 1,2,3; got {seed!r}.")
    configs: dict[str, RunConfig] = {}
    for order in orders or [None]:
        for seed in seeds or [None]:
            names = [f"order-{order}".replace(":", "-")] if order else []
            names += [f"seed-{int(seed)}"] if seed else []
            changes: dict[str, Any] = {"stream.order": order} if order else {}
            changes |= {"seed": int(seed)} if seed else {}
            name = "-".join(names)
            if name in configs:
                raise InputError(f"--seeds and --orders take each value once; got {name} twice.")
            configs[name] = override(config, changes)
    return configs


def run_all(configs: dict[str, RunConfig], folder: Path, run_one: RunOne) -> Path | None:
    """Carry out every run in a folder of its own and compare them.

    Returns the page that compares them, in the process that wrote it.

    Raises:
        InputError: The folder is in use, or no run can start; nothing is left behind then.
    """
    for config in configs.values():
        check_plan(config)
    if not is_main_process():
        _run_each(configs, folder, run_one)
        return None
    _check_empty(folder)
    was_there = folder.is_dir()
    try:
        plan = {name: config.model_dump(mode="json") for name, config in configs.items()}
        write_json(folder / _PLAN, plan)
        _run_each(configs, folder, run_one)
    finally:
        if not any((folder / name).exists() for name in configs):
            _take_away(folder, was_there)
    return write_comparison([folder], folder / _PAGE)


def _run_each(configs: dict[str, RunConfig], folder: Path, run_one: RunOne) -> None:
    for name, config in configs.items():
        run_one(config, folder / name)


def _take_away(folder: Path, was_there: bool) -> None:
    (folder / _PLAN).unlink(missing_ok=True)
    if not was_there and folder.is_dir():
        folder.rmdir()


def is_sweep(folder: Path) -> bool:
    return (folder / _PLAN).exists()


def resume_all(folder: Path, run_one: RunOne, resume_one: Callable[[Path], None]) -> Path | None:
    """Carry out what is left of several runs; returns as `run_all` does.

    Raises:
        InputError: All are finished, or the folder is damaged.
    """
    plan = _read_plan(folder / _PLAN)
    waiting = [name for name in plan if not is_finished(folder / name)]
    if not waiting and (folder / _PAGE).exists():
        raise InputError(f"all runs in {folder} are finished. See {folder / _PAGE}.")
    for name in waiting:
        if (folder / name / "config.json").exists():
            resume_one(folder / name)
        else:
            run_one(RunConfig.parse(plan[name]), folder / name)
    return write_comparison([folder], folder / _PAGE) if is_main_process() else None


def _check_empty(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} must be a folder to write the runs into; it is a file.")
    if folder.is_dir():
        remove_temporary_files(folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(
            f"{folder} is not empty. Choose another --out, or continue its runs with "
            f"remnant resume {folder}."
        )


def _read_plan(path: Path) -> dict[str, Any]:
    try:
        plan = json.loads(path.read_bytes())
    except ValueError:
        plan = None
    if not isinstance(plan, dict):
        raise InputError(
            f"{path} must hold the configs of several runs; it is damaged. Resume the runs in "
            f"{path.parent} one by one."
        )
    return plan
