"""Several runs in one folder, with one report over all: recipes, a grid of settings, seeds, orders.

One run that fails does not stop the others.
"""

from __future__ import annotations

import errno
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remnant.config import RunConfig, override
from remnant.errors import InputError, resume_command
from remnant.files import new_folder, read_json_object, write_json
from remnant.reports import write_comparison
from remnant.runs.experiment import validate_run
from remnant.runs.run_folder import CONFIG, REPORT, SWEEP, is_finished
from remnant.training.launchers import have_met, is_main_process

RunOne = Callable[[RunConfig, Path], None]
Tell = Callable[[str, Exception], None]  # the name of a run that failed, and why
Grid = Mapping[str, Sequence[Any]]  # settings by their keys in config.json, and the values of each
# What a method, its settings or its data can raise; InputError is a ValueError.
_OF_ONE_RUN = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, OSError,
    RuntimeError, TypeError, ValueError,
)  # fmt: skip
_MOST_DIGITS = 18  # of a seed
# Errors of the disk, which the next run would meet too.
_NO_USE_TO_GO_ON = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


@dataclass(frozen=True)
class SweepOutcome:
    """What several runs came to."""

    page: Path | None = None  # that compares them; None: in another process, or nothing to compare
    failed: dict[str, Exception] = field(default_factory=dict)  # by name


# --------------------------------------------------------------------------------- which runs


def expand(
    configs: RunConfig | Sequence[RunConfig],
    seeds: Sequence[str] = (),
    orders: Sequence[str] = (),
    grid: Grid | None = None,
) -> dict[str, RunConfig] | None:
    """A config for each combination, by folder name; None where there is but one run.

    Raises:
        InputError: A value is given twice, or cannot be used.
    """
    given = [configs] if isinstance(configs, RunConfig) else list(configs)
    grid = grid or {}
    if len(given) == 1 and not seeds and not orders and not grid:
        return None
    axes = [[(f"{_short(key, grid)}-{as_folder_name(value)}", {key: value}) for value in values]
            for key, values in grid.items()]  # fmt: skip
    axes.append([(f"order-{as_folder_name(order)}", {"stream.order": order}) for order in orders])
    axes.append([(f"seed-{seed}", {"seed": seed}) for seed in parse_seeds(seeds)])
    expanded: dict[str, RunConfig] = {}
    for config in given:
        first = [as_folder_name(config.recipe)] if len(given) > 1 else []
        for choice in itertools.product(*(axis for axis in axes if axis)):
            name = "-".join([*first, *(part for part, _ in choice)])
            if name in expanded:
                raise InputError(
                    f"recipes, --grid, --seeds and --orders take each value once; got {name} twice."
                )
            changes = {key: value for _, change in choice for key, value in change.items()}
            expanded[name] = override(config, changes)
    return expanded


def parse_seeds(texts: Sequence[str]) -> list[int]:
    """The numbers that were given with --seeds.

    Raises:
        InputError: One is no whole number, or too long to be a seed.
    """
    for text in texts:
        if not (text.isascii() and text.isdigit()):
            raise InputError(f"--seeds takes whole numbers, as in 0,1,2; got {text!r}.")
        if len(text) > _MOST_DIGITS:
            raise InputError(f"--seeds takes at most {_MOST_DIGITS} digits; one has {len(text):,}.")
    return [int(text) for text in texts]


def _short(key: str, keys: Iterable[str]) -> str:
    """The last part of a key, or all of it where others of the grid end alike."""
    last = key.rpartition(".")[2]
    return last if [one.rpartition(".")[2] for one in keys].count(last) == 1 else key


def as_folder_name(value: Any) -> str:
    """A value as a folder's name or part of one; it leads into no other folder."""
    text = value if isinstance(value, str) else json.dumps(value)
    sign = "-" if isinstance(value, int | float) and value < 0 else ""
    return sign + (re.sub(r"[^\w.+]+", "-", text).strip("-.") or "none")


# ------------------------------------------------------------------------------ carrying them out


def run_all(
    configs: dict[str, RunConfig], folder: Path, run_one: RunOne, tell: Tell | None = None
) -> SweepOutcome:
    """Carry out every run in a folder of its own and compare those that finished.

    Args:
        tell: Called with the name of each run that fails, and with what stopped it.

    Raises:
        InputError: The folder is in use, or no run can start; nothing is left behind then.
        OSError: The disk fails, which would stop the other runs too.
    """
    for config in configs.values():
        validate_run(config)
    if not is_main_process():
        return SweepOutcome(failed=_run_each(configs, folder, run_one, tell))
    advice = f"Choose another --out, or continue its runs with {resume_command(folder)}."
    with new_folder(folder, advice, [SWEEP]):
        plan = {name: config.model_dump(mode="json") for name, config in configs.items()}
        write_json(folder / SWEEP, plan)  # first, so that a stop loses no run that had not begun
        failed = _run_each(configs, folder, run_one, tell)
        if len(failed) == len(configs) and not any(path.is_dir() for path in folder.iterdir()):
            raise next(iter(failed.values()))
    return _compare(folder, failed)


def _run_each(
    configs: Mapping[str, RunConfig], folder: Path, run_one: RunOne, tell: Tell | None
) -> dict[str, Exception]:
    return _try_each({name: _starter(run_one, one) for name, one in configs.items()}, folder, tell)


def _starter(run_one: RunOne, config: RunConfig) -> Callable[[Path], None]:
    return lambda folder: run_one(config, folder)


def _try_each(
    runs: Mapping[str, Callable[[Path], None]], folder: Path, tell: Tell | None
) -> dict[str, Exception]:
    """The runs that failed; the others are complete.

    As long as no run has begun, failures are not told: if all are alike, the first is raised.
    """
    failed: dict[str, Exception] = {}
    untold: list[str] = []
    for name, carry_out in runs.items():
        try:
            carry_out(folder / name)
        except _OF_ONE_RUN as error:
            if isinstance(error, OSError) and error.errno in _NO_USE_TO_GO_ON:
                raise
            if have_met():  # the other processes may still be in the middle of this run
                raise
            failed[name] = error
            untold.append(name)
        if tell is not None and any(path.is_dir() for path in folder.iterdir()):
            for one in untold:
                tell(one, failed[one])
            untold.clear()
    return failed


def _compare(folder: Path, failed: dict[str, Exception]) -> SweepOutcome:
    if not is_main_process():
        return SweepOutcome(failed=failed)
    runs = [path for path in folder.iterdir() if path.is_dir()]
    is_any_finished = any(is_finished(path) for path in runs)
    page = write_comparison([folder], folder / REPORT) if is_any_finished else None
    return SweepOutcome(page, failed)


def is_sweep(folder: Path) -> bool:
    return (folder / SWEEP).exists()


def waiting_runs(folder: Path) -> list[str]:
    """The names of those of several runs that are left, in the order in which they will go on.

    Raises:
        InputError: The folder is damaged.
    """
    return [name for name in _read_plan(folder) if not _has_page(folder / name)]


def _read_plan(folder: Path) -> dict[str, Any]:
    return read_json_object(folder / SWEEP, "the configs of several runs")


def _has_page(run: Path) -> bool:
    """Whether a run is finished to the last; one that was killed before its page is not."""
    return is_finished(run) and (run / REPORT).exists()


def resume_all(
    folder: Path, run_one: RunOne, resume_one: Callable[[Path], None], tell: Tell | None = None
) -> SweepOutcome:
    """Carry out what is left of several runs; as `run_all`.

    Raises:
        InputError: All are finished, or the folder is damaged.
    """
    plan, waiting = _read_plan(folder), waiting_runs(folder)
    if not waiting and (folder / REPORT).exists():
        raise InputError(f"all runs in {folder} are finished. See {folder / REPORT}.")

    def go_on(path: Path) -> None:
        if (path / CONFIG).exists():
            resume_one(path)
        else:
            run_one(RunConfig.parse(plan[path.name]), path)

    return _compare(folder, _try_each(dict.fromkeys(waiting, go_on), folder, tell))
