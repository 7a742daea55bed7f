"""Several runs that differ in seed or class order, in one folder, with one report over all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from remnant.config import RunConfig, override
from remnant.errors import InputError
from remnant.files import new_folder, read_json_object, write_json
from remnant.reports import write_comparison
from remnant.runs.experiment import validate_run
from remnant.runs.run_folder import CONFIG, REPORT, SWEEP, is_finished
from remnant.training.processes import is_main_process

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
        validate_run(config)
    if not is_main_process():
        _run_each(configs, folder, run_one)
        return None
    advice = f"Choose another --out, or continue its runs with remnant resume {folder}."
    with new_folder(folder, advice, [SWEEP]):
        plan = {name: config.model_dump(mode="json") for name, config in configs.items()}
        write_json(folder / SWEEP, plan)  # first, so that a stop loses no run that had not begun
        _run_each(configs, folder, run_one)
    return write_comparison([folder], folder / REPORT)


def is_sweep(folder: Path) -> bool:
    return (folder / SWEEP).exists()


def resume_all(folder: Path, run_one: RunOne, resume_one: Callable[[Path], None]) -> Path | None:
    """Carry out what is left of several runs; returns as `run_all` does.

    Raises:
        InputError: All are finished, or the folder is damaged.
    """
    plan = read_json_object(folder / SWEEP, "the configs of several runs")
    waiting = [name for name in plan if not is_finished(folder / name)]
    if not waiting and (folder / REPORT).exists():
        raise InputError(f"all runs in {folder} are finished. See {folder / REPORT}.")
    for name in waiting:
        if (folder / name / CONFIG).exists():
            resume_one(folder / name)
        else:
            run_one(RunConfig.parse(plan[name]), folder / name)
    return write_comparison([folder], folder / REPORT) if is_main_process() else None


def _run_each(configs: dict[str, RunConfig], folder: Path, run_one: RunOne) -> None:
    for name, config in configs.items():
        run_one(config, folder / name)
